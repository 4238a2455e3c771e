-- Judge the transactions of one scheduler in order, apply what stands, and answer with what its
-- private copy lacks and its next jobs. THE SPECIFICATION of what a conflict is.
--
-- KEYS   meta machines runs jobs specs jobnames kinds changes log done schedulers lease | box:* pending:*
-- ARGV   dims tag at member incarnation number since since_tag kind cursor most owned | transactions
-- A transaction is "job mode detection;claim;claim…", mode 0 incremental 1 gang, detection 0 fine 1 coarse.
-- A claim is "machine group count seen[ placement*count…]": count identical tasks, the machine's number
-- at the sync, and the victims it may evict, in order.
-- Reply  {"ok", version, tag, outcomes, mode, text, cursor, (id, arrival, record, spec)…}, or
--        {"fenced"} / {"stale"} / {"keys", name…} with nothing done.
--        outcomes: per transaction "+" when all stands, else "placed verdict,…" per claim; joined by ";".
-- Types  meta, machines, runs, jobs, specs, jobnames, kinds, schedulers: hash; changes, done, box: list;
--        log: stream; lease: string; pending: sorted set
-- Rules  systems.md §1 "common rules"; judging: semantics 7, 8, 9, 11; loss: 14, 15, 16.
--        Verdicts, the first that applies wins: unknown, down, duplicate, incomplete, limit, precedence,
--        moved, full, placed; in a gang that fails the placed ones become aborted.

--@include words ranges publish links tasks delta

local PLACED_OK, UNKNOWN, IS_DOWN, DUPLICATE, INCOMPLETE, LIMIT, PRECEDENCE, MOVED, FULL, ABORTED =
  0, 1, 2, 3, 4, 5, 6, 7, 8, 9
local astray = false  -- the copy belongs to a lost history: its numbers say nothing (semantics 16)
local CLAIM = '(%d+) (%d+) (%d+) (%d+)([^;]*)'

local function read_claim(machine, group, count, seen, evict)
  local c = {
    machine = machine, group = tonumber(group), count = tonumber(count), seen = tonumber(seen), taken = 0,
    evict = false, units = false,
  }
  if evict ~= '' then
    c.evict = {}
    for placement, n in gmatch(evict, '(%d+)%*(%d+)') do
      c.evict[#c.evict + 1] = { placement = placement, count = tonumber(n) }
    end
  end
  return c
end

local function read_transactions(texts, from)
  local list, machines, ids, evicting = {}, {}, {}, {}
  for i = from, #texts do
    local id, mode, detection, rest = match(texts[i], '^(%S+) (%d) (%d);(.*)$')
    local t = {
      id = id, gang = mode == '1', coarse = detection == '1', claims = {}, job = false, claimed = {}, evicted = {},
      placed = {}, verdicts = {}, incomplete = false, placing = false,
    }
    ids[#ids + 1] = id
    local claims, n = t.claims, 0
    for machine, group, count, seen, evict in gmatch(rest, CLAIM) do
      local c = read_claim(machine, group, count, seen, evict)
      n = n + 1
      claims[n] = c
      machines[#machines + 1] = machine
      if c.evict then evicting[#evicting + 1] = c.machine end
    end
    list[#list + 1] = t
  end
  return list, machines, ids, evicting
end

local function load(machines, ids, evicting)
  load_machines(machines)
  load_jobs(ids)
  if #evicting > 0 then
    load_jobs_on(evicting)
    load_strict_gangs()
  end
  load_kinds_of_jobs()
end

-- Single tasks that may be evicted for a claim, in the written order; one already gone is ignored.
-- Nil when one of them is not of strictly lower precedence.
local NONE = {}
local function victims_of(t, c, m)
  if not c.evict then return NONE end
  local units, listed = {}, {}
  for _, v in ipairs(c.evict) do
    local from, _, id, group, tasks = find_run(m, v.placement, false)
    if from then
      local victim = J[id]
      if victim.precedence >= t.job.precedence then return nil end
      local left = span_count(tasks) - (t.evicted[v.placement] or 0) - (listed[v.placement] or 0)
      local n = math.min(v.count, left)
      listed[v.placement] = (listed[v.placement] or 0) + n
      for _ = 1, n do
        units[#units + 1] = { placement = v.placement, kind = victim.kind, need = victim.groups[group + 1].need }
      end
    end
  end
  return units
end

-- How many tasks the limits of the job's kind still admit; freed: what evictions gave back (semantics 9).
local function admitted(t, need)
  local j, k = t.job, K[t.job.kind]
  if k.lowest and (j.precedence < k.lowest or j.precedence > k.highest) then return 0 end
  if k.max_jobs and j.placed == 0 and not t.placing and k.jobs >= k.max_jobs then return 0 end
  if not k.limited then return math.huge end
  local most = math.huge
  for d = 1, R do
    if k.limit[d] and need[d] > 0 then
      most = math.min(most, math.max(0, floor((k.limit[d] - k.used[d]) / need[d])))
    end
  end
  return most
end

local function evict(t, c, m, units, from, to, sign)
  for i = from, to do
    local u = units[i]
    occupy(m, u.need, -sign)
    book(u.kind, u.need, -sign)
    t.evicted[u.placement] = (t.evicted[u.placement] or 0) + sign
  end
end

-- Place as many of want as fit, evicting one task after another and only while that helps: a task
-- that does not fit in the end evicts nothing (semantics 7). Returns the number and what stopped it.
local function fit(t, c, m, need, want, units)
  local n, taken, tried = 0, 0, 0
  local verdict = PLACED_OK
  while true do
    local fits, limit = math.min(want, room(m, need)), admitted(t, need)
    local possible = math.min(fits, limit)
    if possible > n then n, taken = possible, tried end
    if n >= want then break end
    verdict = limit <= n and LIMIT or FULL
    if tried == #units or (limit <= n and fits > n) then break end
    tried = tried + 1
    evict(t, c, m, units, tried, tried, 1)
  end
  evict(t, c, m, units, taken + 1, tried, -1)
  c.taken, c.units = taken, units
  return n, n >= want and PLACED_OK or verdict
end

-- Judge one claim against the running copy. Returns how many tasks stand, and the verdict of the
-- rest: a run of identical tasks shares the verdict of the first that failed.
local function judge(t, c)
  local j, m = t.job, M[c.machine]
  local g = j and j.groups[c.group + 1]
  if not g or j.state ~= ACTIVE or not m or m[3] == GONE then return 0, UNKNOWN end
  if m[3] ~= UP or over(m) then return 0, IS_DOWN end
  local left = g[UNPLACED] - (t.claimed[c.group] or 0)
  if left <= 0 then return 0, DUPLICATE end
  if t.incomplete then return 0, INCOMPLETE end
  local units = victims_of(t, c, m)
  -- Own earlier transactions of this call are no interference: only a foreign change is a move.
  local moved = t.coarse and (astray or c.seen + m.own ~= m.number)
  if not units or moved then
    if admitted(t, g.need) <= 0 then return 0, LIMIT end
    return 0, units and MOVED or PRECEDENCE
  end
  local want = math.min(c.count, left)
  local n, verdict = math.min(want, room(m, g.need), admitted(t, g.need)), PLACED_OK
  if n < want then n, verdict = fit(t, c, m, g.need, want, units) end
  if n > 0 then
    occupy(m, g.need, n)
    book(j.kind, g.need, n)
    t.claimed[c.group] = (t.claimed[c.group] or 0) + n
    t.placing = true
  end
  if verdict == PLACED_OK and c.count > want then verdict = DUPLICATE end
  return n, verdict
end

-- A gang job takes only transactions that cover all its unplaced required tasks as a gang (semantics 8).
local function covers(t)
  local sums = {}
  for _, c in ipairs(t.claims) do sums[c.group] = (sums[c.group] or 0) + c.count end
  for i, g in ipairs(t.job.groups) do
    if (sums[i - 1] or 0) < g[UNPLACED] and not optional(g) then return false end
  end
  return t.gang
end

-- In memory only, before anything is written: a failed gang leaves the running copy as it was.
local function remember(t)
  local saved = {}
  for _, c in ipairs(t.claims) do
    local m = M[c.machine]
    if m and not saved[m] then saved[m] = { unpack(m, USED + 1, USED + R) } end
  end
  local kinds = {}
  for name, k in pairs(K) do kinds[name] = { used = { unpack(k.used) }, changed = k.changed } end
  return function()
    for m, amounts in pairs(saved) do
      for d = 1, R do m[USED + d] = amounts[d] end
    end
    for name, was in pairs(kinds) do K[name].used, K[name].changed = was.used, was.changed end
  end
end

-- Evict what the claim took: the last tasks of each victim's run.
local function apply_evictions(t, c, m, reason)
  local counts, order = {}, {}
  for i = 1, c.taken do
    local placement = c.units[i].placement
    if not counts[placement] then order[#order + 1] = placement end
    counts[placement] = (counts[placement] or 0) + 1
  end
  for _, placement in ipairs(order) do
    local _, _, _, _, tasks = find_run(m, placement, false)
    take_off(m, placement, (span_tail(tasks, counts[placement])), 'evicted', reason)
  end
end

local function apply(t, stamp)
  local reason = 'precedence:' .. t.id
  for i, c in ipairs(t.claims) do
    local m = M[c.machine]
    if t.placed[i] > 0 then
      touch(m, stamp)
      if c.taken > 0 then apply_evictions(t, c, m, reason) end
      place(t.job, c.group, m, t.placed[i])
    end
  end
  evict_gangs(reason, stamp)
end

local function decide(t, stamp)
  t.job = J[t.id]
  t.incomplete = t.job and t.job.gang > 0 and not covers(t)
  local undo = t.gang and remember(t)
  local failed, placed = false, false
  for i, c in ipairs(t.claims) do
    t.placed[i], t.verdicts[i] = judge(t, c)
    if t.verdicts[i] ~= PLACED_OK then failed = true end
    if t.placed[i] > 0 then placed = true end
  end
  if failed and t.gang then
    undo()
    placed = false
    for i in ipairs(t.claims) do
      t.placed[i] = 0
      if t.verdicts[i] == PLACED_OK then t.verdicts[i] = ABORTED end
    end
  end
  if failed then
    for i, c in ipairs(t.claims) do
      local v = t.verdicts[i]
      if v == MOVED or v == FULL then
        fact('conflict ' .. t.id .. ' ' .. c.machine .. ' ' .. v .. ' ' .. (c.count - t.placed[i]))
      end
    end
  end
  if placed then
    meta.transactions = meta.transactions + 1
    apply(t, stamp)
  end
  if not failed then return '+' end
  local words = {}
  for i in ipairs(t.claims) do words[i] = t.placed[i] .. ' ' .. t.verdicts[i] end
  return concat(words, ',')
end

local function reply(outcomes)
  local mode, text = delta(meta.version, meta.floor, tonumber(since), since_tag)
  local latest = redis.call('LINDEX', changes_key, -1)
  local answer = { 'ok', string.format('%.0f', meta.version), latest and sub(latest, 1, 10) or '', outcomes, mode, text }
  if tonumber(most) > 0 then intake(answer, named['pending:' .. kind], cursor, tonumber(most), owned) end
  return answer
end

local record = redis.call('HGET', schedulers_key, member)
local was, last, outcomes
if record then was, last, outcomes = match(record, '^(%d+) %S+ (%d+)\n(.*)$') end
if was ~= incarnation or redis.call('EXISTS', lease_key) == 0 then return { 'fenced' } end
if last == number then return reply(outcomes) end
if tonumber(number) < tonumber(last) then return { 'stale' } end

local transactions, machines, ids, evicting = read_transactions(ARGV, fixed_args + 1)
load(machines, ids, evicting)
local names = lacking()
if #names > 0 then return answering({ 'keys' }, names) end

local answers = {}
for _, t in ipairs(transactions) do
  if t.coarse and not astray then astray = strange(meta.version, meta.floor, tonumber(since), since_tag) end
end
for i, t in ipairs(transactions) do answers[i] = decide(t, i) end
outcomes = concat(answers, ';')
publish(at, member, false)
local nonce = match(record, '^%d+ (%S+)')
redis.call('HSET', schedulers_key, member, incarnation .. ' ' .. nonce .. ' ' .. number .. '\n' .. outcomes)
return reply(outcomes)
