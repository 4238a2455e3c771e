-- Changes of tasks: placed, ended, pending again. Amounts on machines (occupy) and of kinds (book) are separate from the
-- records, because a commit validates with the former and writes the latter afterwards.

local function occupy(m, g, count)
  for d = 1, R do m[USED + d] = m[USED + d] + g[NEED + d] * count end
end

local function book(k, g, count)
  k.changed = true
  local used = k.used
  for d = 1, R do used[d] = used[d] + g[NEED + d] * count end
end

local function count_admitted(j, before)
  local k, more = K[j.kind], (j.placed > 0 and 1 or 0) - (before > 0 and 1 or 0)
  if more == 0 then return end
  k.jobs, k.changed = k.jobs + more, true
  local chain = pools.limited and pools.chain(L[j.lane])
  if chain then pools.hold_job(chain, more) end
end

-- The first count tasks of several ranges.
local function take_queued(g, count)
  local taken = {}
  while count > 0 do
    local s = g.queue[g.at]
    local n = math.min(count, s[2] - s[1] + 1)
    taken[#taken + 1] = { s[1], s[1] + n - 1 }
    s[1], count = s[1] + n, count - n
    if s[1] > s[2] then g.at = g.at + 1 end
  end
  return spell(taken)
end

-- The first count of a group's waiting tasks. Ranges are kept as numbers until the text is asked for (waiting_of): that of
-- a job on hundreds of machines would be written anew for each.
local function take_waiting(g, count)
  if g.back then waiting_of(g) end
  if g.queue then return take_queued(g, count) end
  local first, last = g.first, g.last
  if not first then
    local text = g.waiting
    first, last = match(text, '^(%d+)%-(%d+)$')
    if not first then
      if find(text, ',', 1, true) then
        g.queue, g.at = spans(text), 1
        return take_queued(g, count)
      end
      g.waiting = '-'
      return text
    end
    first, last = tonumber(first), tonumber(last)
    if last - first + 1 == count then
      g.waiting = '-'
      return text
    end
  end
  local to = first + count - 1
  if to >= last then
    g.first, g.waiting = false, '-'
  else
    g.first, g.last = to + 1, last
  end
  return first == to and format('%d', first) or format('%d-%d', first, to)
end

-- Record count tasks of a group as one run on a machine. The caller counts admitted jobs and touches this one.
local function place(j, group, m, count)
  local g = j.groups[group + 1]
  if count > 1 and g[OPTIONAL] == COPIES then  -- each copy is a run of its own
    for _ = 1, count do place(j, group, m, 1) end
    return
  end
  local tasks = take_waiting(g, count)
  -- The run starts only after leaving tasks of this machine, and of these tasks elsewhere, have ended (semantics 2).
  local hold = (find(m.runs, '!', 1, true) or has_leaving(g)) and '1' or '0'
  meta.placements = meta.placements + 1
  local placement = format('%d', meta.placements)
  g[UNPLACED], g[PLACED] = g[UNPLACED] - count, g[PLACED] + count
  local number = group == 0 and '0' or format('%d', group)
  m.runs = m.runs .. ' ' .. placement .. ':' .. j.id .. ':' .. number .. ':' .. tasks
  move_run(j, number, g, placement .. '@' .. m.key, false, '-', tasks)
  j.placed, j.unplaced = j.placed + count, j.unplaced - count
  announce_place(j, number, g, hold, m, placement, tasks)
end

local strict = {}
local ENDED = { finished = FINISHED, failed = FAILED, stopped = STOPPED }

-- Take tasks of a run off its machine. how: finished, failed, retried, lost, evicted, stopped.
-- Evicted and stopped tasks stay as leaving until their end is acknowledged (semantics 2). An optional
-- task that is evicted, lost or failed is dropped from the total and never pending again (4). Lost and retried tasks
-- are delayed, or fail (losses.lua); those of an at-most-once group fail when they are evicted too (26). A task whose copy
-- runs continues as that (copies.lua). Returns how many there were. The caller has freed the amounts; what follows reason is
-- what find_run found.
local function take_off(m, placement, part, how, reason, from, to, id, group, tasks)
  local j = J[id]
  local g = j.groups[group + 1]
  local gone, rest = span_split(tasks, part)
  local count = span_count(gone)
  local met = j.copied and far.copies.meet(j, tonumber(group), g, gone, how, reason)
  local ending = met and select(2, span_split(gone, met.kept)) or gone
  local stays = rest ~= '-' and (' ' .. placement .. ':' .. id .. ':' .. group .. ':' .. rest) or ''
  m.runs = sub(m.runs, 1, from - 1) .. stays .. sub(m.runs, to + 1)
  local item = placement .. '@' .. m.key
  move_run(j, group, g, item, false, tasks, rest)
  if how == 'evicted' or how == 'stopped' then
    local lfrom, lto, _, _, left = find_run(m, placement, true)
    if lfrom then m.runs = sub(m.runs, 1, lfrom - 1) .. sub(m.runs, lto + 1) end
    local leaving = span_add(left or '-', gone)
    move_run(j, group, g, '!' .. item, true, left or '-', leaving)
    g.leaves = true
    m.runs = m.runs .. ' !' .. placement .. ':' .. id .. ':' .. group .. ':' .. leaving
    message(m, '- ' .. placement .. ' ' .. m.key .. ' ' .. gone)
    if how == 'evicted' and j.gang == STRICT then strict[#strict + 1] = j end
  end
  local before = j.placed
  g[PLACED], j.placed, left_by[j.lane] = g[PLACED] - count, before - count, true
  count_admitted(j, before)
  local dropped = g[OPTIONAL] == COPIES or how ~= 'finished' and how ~= 'stopped' and j.state <= HELD and optional(g)
  local ended, spent = ENDED[how] or (j.state > HELD and STOPPED), '-'
  if met and g.losses and met.kept ~= '-' then losses.forget(j, g, met.kept, placement) end
  if dropped then
    g[TOTAL] = g[TOTAL] - count
    if g[OPTIONAL] == COPIES then losses.forget(j, g, gone) end
  elseif ending == '-' then
    spent = '-'  -- all of them continue as their copies
  elseif ended then
    g[ended] = g[ended] + span_count(ending)
    if g.losses then losses.forget(j, g, ending) end
  elseif how == 'lost' or how == 'retried' then
    spent = losses.lose(j, g, ending, placement, how == 'retried' and m.key)
  elseif g[BUDGET] == NEVER then
    spent = gone  -- it has begun, so it is not placed again
  else
    if g.losses then losses.forget(j, g, ending, placement) end
    g.back = g.back or {}
    g.back[#g.back + 1] = ending
    local back = span_count(ending)
    g[UNPLACED], j.unplaced, j.returned = g[UNPLACED] + back, j.unplaced + back, true
  end
  if spent ~= '-' then g[FAILED] = g[FAILED] + span_count(spent) end
  if how ~= 'finished' then j.begun = true end
  touch_job(j)
  local line = how .. ' ' .. placement .. ' ' .. m.key .. ' ' .. id .. ' ' .. group .. ' ' .. gone
  fact(with_values(line, m) .. ' ' .. reason)
  if dropped then fact(format('drop %s %s %d %s', id, group, count, how)) end
  if spent ~= '-' then fact(format('fail %s %s %s %s', id, group, spent, how)) end
  if met then far.copies.follow(j, met, how, reason) end
  return count
end

-- Apply the acknowledged end of leaving tasks: their processes have ended. `reason` tells how, "-" where nothing does.
local function acknowledge(m, placement, part, reason)
  local from, to, id, group, tasks = find_run(m, placement, true)
  if not from then return 0 end
  local gone, rest = span_split(tasks, part == '*' and tasks or part)
  local count = span_count(gone)
  if count == 0 then return 0 end
  local stays = rest ~= '-' and (' !' .. placement .. ':' .. id .. ':' .. group .. ':' .. rest) or ''
  m.runs = sub(m.runs, 1, from - 1) .. stays .. sub(m.runs, to + 1)
  local j = J[id]
  if j then
    move_run(j, group, j.groups[group + 1], '!' .. placement .. '@' .. m.key, true, tasks, rest)
    touch_job(j)
  end
  local how = reason == '-' and '' or ' ' .. reason
  fact('left ' .. placement .. ' ' .. m.key .. ' ' .. id .. ' ' .. group .. ' ' .. gone .. how)
  return count
end

-- Free the amounts of tasks and take them off; part "*" means the whole run. Returns the number of tasks.
local function end_tasks(m, placement, part, how, reason, transaction)
  local from, to, id, group, tasks = find_run(m, placement, false)
  if not from then return 0 end
  local gone = part == '*' and tasks or (span_split(tasks, part))
  local count = span_count(gone)
  if count == 0 then return 0 end
  local j = J[id]
  local g = j.groups[group + 1]
  if j.copied then
    far.copies.transaction = transaction
    if how == 'finished' and g[OPTIONAL] == COPIES and far.copies.win(j, g, gone) then
      from, to, id, group, tasks = find_run(m, placement, false)
      g = j.groups[group + 1]
    end
  end
  touch(m, transaction)
  occupy(m, g, -count)
  book(K[j.kind], g, -count)
  local chain = pools.limited and pools.chain(L[j.lane])
  if chain then pools.hold(chain, g, -count) end
  return take_off(m, placement, gone, how, reason, from, to, id, group, tasks)
end
far.copies.end_tasks = end_tasks

-- Evicting members of a strict gang may evict all: read their machines too (semantics 8).
local function load_strict_gangs()
  local machines = {}
  for _, j in pairs(J) do
    if j and j.gang == STRICT then
      for i, g in ipairs(j.groups) do
        for _, run in ipairs(far.runs(j, i - 1, g, math.huge)) do machines[#machines + 1] = run[2] end
      end
    end
  end
  load_machines(machines)
end

-- Whether fewer tasks of a strict gang would run than may without the others.
local function is_broken(j, placed) return j.gang_min == 0 or placed < j.gang_min end

-- Evict the rest of every strict gang that evictions left with too few tasks. Returns the number of tasks.
local function evict_gangs(reason, transaction)
  local count, jobs = 0, strict
  for _, j in ipairs(jobs) do
    strict = {}
    for i, g in ipairs(is_broken(j, j.placed) and j.groups or {}) do
      for _, run in ipairs(far.runs(j, i - 1, g, math.huge)) do
        local m = M[run[2]]
        if m then count = count + end_tasks(m, run[1], '*', 'evicted', reason, transaction) end
      end
    end
  end
  strict = {}
  return count
end
