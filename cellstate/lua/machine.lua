-- Change one machine: its state (up, drained, down, gone) or its capacity.
--
-- KEYS   meta machines runs placed jobs specs jobnames kinds lanes lanenames pools changes log done recent history results housekeeping waiters shapes executors serving drains operator | box:* pending:* wake:* asleep owners
-- ARGV   dims tag at by now index action change
-- now: the server's time in ms.
-- action "state": change is 0 up, 1 drained, 2 down, 3 gone. Tasks of a machine that becomes down or gone are pending
-- again at once; while its executor lives they are also leaving (reason "down"), otherwise they have ended. A machine
-- that is set up is offline when its executor does not live, unfit when that cannot start tasks. action "capacity": change is "amount*R", "-" for one that
-- stays, then " placement*count" for each allowed eviction, in that order and only while the machine is over; refused
-- when the machine would stay over. An equal state or capacity changes nothing. The amounts are an operator's from then
-- on: join.lua keeps them. What an operator set goes with the machine.
-- Reply  {"ok", version, tasks put back}, {"unknown"}, {"over", placements…}, {"sum", resource} (too much together), or {"keys", name…}
-- Types  executors, serving, operator: hash; others as in commit.lua
-- Rules  semantics 2, 5, 8, 23, 31; idempotent (14)

--@include lists listing binary rows named counters
--@inner
--@include announce ranges records done pools lanes totals publish shapes sums links placements losses copies tasks serving operator

load_machines({ index })
local m = M[index]
local to_state = action == 'state' and tonumber(change)
if to_state == UP and m then to_state = own_state(m[EXECUTOR]) end
if m and m[STATE] == GONE and to_state == GONE then
  return { 'ok', redis.call('HGET', meta_key, 'version'), 0 }
end
if not m or m[STATE] == GONE then return { 'unknown' } end
load_jobs_on({ index })
load_strict_gangs()
--@include ready

losses.lost_at = tonumber(now)

local function set_state()
  if m[STATE] == to_state then return 0 end
  local count = 0
  touch(m, 1)
  shapes.leave(m)
  m[STATE] = to_state
  fact(with_values(format('machine %s state %d', index, to_state), m))
  if to_state == DOWN or to_state == GONE then
    local serves = lives(m[EXECUTOR])
    local how, reason = serves and 'evicted' or 'lost', serves and 'down' or '-'
    for placement in gmatch(m.runs, ' (%d+):') do count = count + end_tasks(m, placement, '*', how, reason, 1) end
    if serves then return count + evict_gangs(reason, 1) end
    for placement in gmatch(m.runs, ' !(%d+):') do acknowledge(m, placement, '*', '-') end
  end
  return count
end

local function exceeds(used, capacity)
  for d = 1, R do
    if used[d] > capacity[d] then return true end
  end
  return false
end

-- The runs to evict from, in order, and the number of tasks of each, so that the remaining tasks fit; nil when evicting
-- all of them is not enough.
local function needed(capacity)
  local used, counts, order = { unpack(m, USED + 1, USED + R) }, {}, {}
  for placement, count in gmatch(change, '(%d+)%*(%d+)') do
    local from, _, id, group, tasks = find_run(m, placement, false)
    if from then
      local g, n = J[id].groups[group + 1], counts[placement] or 0
      local most = math.min(n + tonumber(count), span_count(tasks))
      while n < most and exceeds(used, capacity) do
        for d = 1, R do used[d] = used[d] - g[NEED + d] end
        n = n + 1
        if n == 1 then order[#order + 1] = placement end
      end
      counts[placement] = n
    end
  end
  if exceeds(used, capacity) then return nil end
  return order, counts
end

-- The words of `change` that are amounts.
local function asked()
  local words = {}
  for word in gmatch(change, '%S+') do
    words[#words + 1] = word
    if #words == R then return words end
  end
end

local function shrink()
  local capacity = asked()
  for d = 1, R do capacity[d] = tonumber(capacity[d]) or m[CAPACITY + d] end
  local order, counts = needed(capacity)
  if not order then return nil end
  if #order == 0 and capacity_of(m) == format(AMOUNTS, unpack(capacity)) then return 0 end
  local count = 0
  touch(m, 1)
  shapes.leave(m)
  for d = 1, R do m[CAPACITY + d] = capacity[d] end
  local amounts = string.gsub(format(AMOUNTS, unpack(capacity)), ' ', ',')
  fact(with_values('machine ' .. index .. ' capacity ' .. sub(amounts, 2), m))
  for _, placement in ipairs(order) do
    local from, _, _, _, tasks = find_run(m, placement, false)
    if from then
      local part = span_tail(tasks, counts[placement])
      count = count + end_tasks(m, placement, part, 'evicted', 'over', 1)
      count = count + evict_gangs('over', 1)
    end
  end
  return count
end

local count = action == 'state' and set_state() or (action == 'capacity' and shrink())
if not count then
  local live = {}
  for placement in gmatch(m.runs, ' (%d+):') do live[#live + 1] = placement end
  return answering({ 'over' }, live)
end
local excess = action == 'capacity' and too_much(touched)
if excess then return { 'sum', excess } end
lack = end_waits()
if lack then return lack end
if action == 'state' and m.touched then
  if to_state ~= DRAINED then redis.call('HDEL', drains_key, index) end
  if to_state == GONE then redis.call('HDEL', operator_key, index) end
end
if action == 'capacity' then
  local amounts, attributes = set_by_operator(index)
  local kept, d = asked(), 0
  for amount in gmatch(amounts, '%S+') do
    d = d + 1
    if kept[d] == '-' and match(amount, '^%d+$') then kept[d] = amount end
  end
  keep_for_operator(index, concat(kept, ' '), attributes)
end
if #touched > 0 then
  meta.transactions, freed = meta.transactions + 1, true
  publish(at, by, change ~= '0')
  shapes.write()
end
return { 'ok', format('%d', meta.version), count }
