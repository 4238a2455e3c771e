-- Evictions between pools: the thresholds that a transaction states, and whether an eviction set is legal against what
-- the pools hold at this moment (semantics 33, docs/decisions/0022). Mirrors cellstate/fairness.py. Nothing of this runs for
-- a transaction without evictions.
--   assertion  serial|threshold|threshold…|floor…  the evictor's pool first, then those of its victims
--   threshold  leaf,…,;lane,…;amount,…          leaf: name of a leaf pool as in the names of lanes; lane: its lanes as far
--              =job;;amount,…                   as the sender knows them; amount: the fair share, in smallest units
--   floor      =job;;amount,…  +job;;amount,…   what a job keeps of one resource at least, or (+) of all; "-": no amount
--                                               of that resource suffices
-- serial: no lane that the sender does not know has it or a lower one. Where a newer lane exists all are read.
-- A pool holds what its lanes held before this call, plus what the call changed since.

-- The functions are made when the first transaction of a call names victims: a call without any pays for one closure.
local shares = { used = false, configured = meta.pools > 0 }
function shares.use()
  if shares.used then return end
  shares.used = true

  function shares.leaf(j)
    local l = L[j.lane]
    return l and pools.leaf_of(l)
  end

  local function zeros()
    local list = {}
    for d = 1, R do list[d] = 0 end
    return list
  end

  local function add(to, g, count)
    for d = 1, R do to[d] = to[d] + g[NEED + d] * count end
  end

  local function read_threshold(text)
    local leaves, lanes, amounts = match(text, '^([^;]*);([^;]*);([^;]*)$')
    local every, job = match(leaves, '^([=+])([^,]*)$')
    local found =
      { leaves = {}, lanes = lanes, text = leaves, share = {}, units = {}, job = job or false, every = every == '+' }
    for leaf in gmatch(leaves, '([^,]*),') do found.leaves[leaf] = true end
    for amount in gmatch(amounts, '[^,]+') do
      found.share[#found.share + 1] = amount == '-' and math.huge or tonumber(amount)
    end
    return found
  end

  -- The assertion after the victims of a transaction; false when there is none.
  function shares.read(text)
    local serial, rest = match(text, '|(%d+)|(.*)$')
    if not serial then return false end
    local s = { serial = tonumber(serial), victims = {}, floors = {}, evictor = false, own = false, gone = {}, away = {}, counted = {} }
    for part in gmatch(rest, '[^|]+') do
      local threshold = read_threshold(part)
      if not s.evictor then
        s.evictor = threshold
      else
        local list = threshold.job and s.floors or s.victims
        list[#list + 1] = threshold
      end
    end
    return s
  end

  -- Read the lanes that the assertions of a call need, and those of its jobs.
  function shares.load(transactions)
    local numbers, all = {}, false
    for _, t in ipairs(transactions) do
      local s = t.share
      if s then
        all = all or s.serial < meta.lanes
        for _, threshold in ipairs({ s.evictor, unpack(s.victims) }) do
          for number in gmatch(threshold.lanes, '%d+') do numbers[#numbers + 1] = tonumber(number) end
        end
      end
    end
    if all then
      for _, field in ipairs(redis.call('HKEYS', lanes_key)) do
        if find(field, '^%d+$') then numbers[#numbers + 1] = tonumber(field) end
      end
    end
    for _, j in pairs(J) do
      if j then numbers[#numbers + 1] = j.lane end
    end
    lanes.load(numbers)
  end

  -- Sum what every pool that a transaction names holds now.
  function shares.begin(t)
    local s = t.share
    s.own = s.evictor and (s.evictor.job == t.id or s.evictor.leaves[shares.leaf(t.job) or false])
    for _, f in ipairs({ s.evictor, unpack(s.floors) }) do
      local j, held = f.job and J[f.job], zeros()
      for _, g in ipairs(j and j.groups or {}) do add(held, g, g[PLACED]) end
      f.now, f.before, f.first = held, { unpack(held) }, { unpack(held) }
    end
    local pools_of = { unpack(s.victims) }
    if not s.evictor.job then pools_of[#pools_of + 1] = s.evictor end
    for _, threshold in ipairs(pools_of) do
      local held = zeros()
      for _, l in pairs(L) do
        if l and threshold.leaves[pools.leaf_of(l)] then
          for d = 1, R do held[d] = held[d] + l[WANTED + R + d] end
        end
      end
      for _, j in pairs(J) do
        if j and threshold.leaves[shares.leaf(j) or false] then
          for _, g in ipairs(j.groups) do add(held, g, g[PLACED] - g.held) end
        end
      end
      threshold.now, threshold.before, threshold.first = held, { unpack(held) }, { unpack(held) }
    end
  end

  -- Whether a job is in the operators' band: then precedence decides across pools.
  local least
  local function operates(j)
    least = least or tonumber(redis.call('HGET', pools_key, 'operators') or '') or math.huge
    return j.precedence >= least
  end

  -- Whether a floor is stated for the victim's job; within a pool it covers no task of a higher precedence (rank).
  local function has_floor(t, victim, leaf, rank)
    if victim == t.job or (rank > t.job.precedence and leaf == shares.leaf(t.job)) then return false end
    for _, f in ipairs(t.share.floors) do
      if f.job == victim.id then return true end
    end
    return false
  end

  -- Return the verdict by which pools refuse the eviction of a victim, or false.
  function shares.refusal(t, victim, rank)
    local lower = rank < t.job.precedence
    local leaf = (t.share or shares.configured) and shares.leaf(victim)
    if t.share and has_floor(t, victim, leaf, rank) then return false end
    if t.share and leaf and not t.share.evictor.leaves[leaf] then
      for _, threshold in ipairs(t.share.victims) do
        if threshold.leaves[leaf] then return false end
      end
    end
    if shares.configured and leaf ~= shares.leaf(t.job) and not operates(t.job) then return SHARE end
    return not lower and PRECEDENCE
  end

  -- Whether the evictor's pool stands below its share in every resource that a task of the group needs.
  function shares.below(s, g)
    local e = s.evictor
    for d = 1, R do
      if g[NEED + d] > 0 and e.before[d] >= e.share[d] then return false end
    end
    return s.own
  end

  -- Usage / share over the resources that change hands, and what is held without a share.
  local function ratio(used, share, moved)
    local worst, without = 0, 0
    for d = 1, R do
      if moved[d] > 0 and used[d] > 0 then
        if share[d] > 0 then
          worst = math.max(worst, used[d] / share[d])
        else
          worst, without = math.huge, math.max(without, used[d])
        end
      end
    end
    return worst, without
  end

  local function larger(a, b, c, d)
    if a > c or (a == c and b > d) then return a, b end
    return c, d
  end

  -- A pool ends less than one evicted unit below its share: each unit alone is justified.
  local function keeps_its_share(v)
    for _, unit in ipairs(v.units) do
      local above = false
      for d = 1, R do
        if unit[d] > 0 and v.now[d] + unit[d] > v.share[d] then above = true end
      end
      if not above then return false end
    end
    return true
  end

  local function lost(f)
    for d = 1, R do
      if f.now[d] ~= f.first[d] then return true end
    end
    return false
  end

  local function keeps_its_floor(f)
    local reached = 0
    for d = 1, R do
      if f.now[d] >= f.share[d] then reached = reached + 1 end
    end
    return reached == R or (reached > 0 and not f.every)
  end

  -- Whether what was counted since the last set is legal as one set. before and now: of the evictor and of each victim.
  function shares.legal(s)
    local e, taken = s.evictor, zeros()
    for d = 1, R do
      taken[d] = e.now[d] - e.before[d]
      if taken[d] > 0 and e.before[d] >= e.share[d] then return false end
    end
    local was, was_more = ratio(e.before, e.share, taken)
    local is, is_more = ratio(e.now, e.share, taken)
    for _, v in ipairs(s.victims) do
      if #v.units > 0 then
        if not keeps_its_share(v) then return false end
        local moved = zeros()
        for d = 1, R do moved[d] = v.before[d] - v.now[d] end
        local held, held_more = ratio(v.before, v.share, moved)
        local left, left_more = ratio(v.now, v.share, moved)
        local most, most_more = larger(was, was_more, held, held_more)
        local end_, end_more = larger(is, is_more, left, left_more)
        if not (end_ < most or (end_ == most and end_more < most_more)) then return false end
      end
    end
    for _, f in ipairs(s.floors) do
      if lost(f) and not keeps_its_floor(f) then return false end
    end
    return s.own
  end

  -- Begin the next set after a validated one.
  function shares.close(s)
    for _, threshold in ipairs({ s.evictor, unpack(s.victims) }) do
      threshold.before, threshold.units = { unpack(threshold.now) }, {}
    end
  end

  -- What a task counts whose eviction was counted last: its own need; of a strict gang, if this task leaves too few of it,
  -- that of all its tasks not counted yet; nil for one that goes with these.
  local function unit_of(s, unit)
    local victim, group, amounts = unit.job, unit.group, zeros()
    if s.gone[victim] then return nil end
    if victim.gang ~= STRICT then
      add(amounts, group, 1)
      return amounts
    end
    local away = s.away[victim] or { n = 0 }
    s.away[victim], away.n = away, away.n + 1
    if is_broken(victim, victim.placed - away.n) then
      s.gone[victim] = unit
      for _, each in ipairs(victim.groups) do add(amounts, each, each[PLACED] - (away[each] or 0)) end
    else
      away[group] = (away[group] or 0) + 1
      add(amounts, group, 1)
    end
    return amounts
  end

  -- Undo unit_of, in the opposite order.
  local function take_back(s, unit)
    local victim, amounts = unit.job, s.counted[unit]
    local away = amounts and s.away[victim]
    if s.gone[victim] == unit then
      s.gone[victim] = nil
    elseif away then
      away[unit.group] = away[unit.group] - 1
    end
    if away then away.n = away.n - 1 end
    return amounts
  end

  -- Count a task of the evictor and the units evicted for it; what goes with a strict gang is one unit. sign -1: undo.
  function shares.count(s, g, units, from, to, sign)
    add(s.evictor.now, g, sign)
    for i = sign > 0 and from or to, sign > 0 and to or from, sign do
      local victim, amounts = units[i].job, nil
      if sign > 0 then
        amounts = unit_of(s, units[i])
        s.counted[units[i]] = amounts
      else
        amounts = take_back(s, units[i])
      end
      local leaf = shares.leaf(victim)
      if amounts and leaf and s.evictor.leaves[leaf] then
        for d = 1, R do s.evictor.now[d] = s.evictor.now[d] - sign * amounts[d] end
      end
      for _, v in ipairs(amounts and s.victims or {}) do
        if leaf and v.leaves[leaf] then
          for d = 1, R do v.now[d] = v.now[d] - sign * amounts[d] end
          if sign > 0 then v.units[#v.units + 1] = amounts else v.units[#v.units] = nil end
        end
      end
      for _, f in ipairs(amounts and s.floors or {}) do
        if f.job == victim.id then
          for d = 1, R do f.now[d] = f.now[d] - sign * amounts[d] end
        end
      end
    end
  end

  -- What the audit needs: for each pool its leaves, what it held before the transaction and holds after it, its share;
  -- for a job with a floor that loses tasks, or with a share of its own, the same.
  function shares.fact(t)
    local words, all = {}, { t.share.evictor, unpack(t.share.victims) }
    for _, f in ipairs(t.share.floors) do
      if lost(f) then all[#all + 1] = f end
    end
    for i, threshold in ipairs(all) do
      local held, left, due = {}, {}, {}
      for d = 1, R do
        held[d], left[d] = format('%.0f', threshold.first[d]), format('%.0f', threshold.now[d])
        due[d] = threshold.share[d] < math.huge and format('%.17g', threshold.share[d]) or '-'
      end
      words[i] = threshold.text .. ';' .. concat(held, ',') .. ';' .. concat(left, ',') .. ';' .. concat(due, ',')
    end
    return 'assert ' .. t.id .. ' ' .. concat(words, ' ')
  end
end
