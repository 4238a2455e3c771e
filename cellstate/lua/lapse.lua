-- An agent leaves, or is found gone: what ran on its machine is lost and goes back to pending, once.
--
-- KEYS   meta machines runs placed jobs specs jobnames kinds lanes lanenames changes log done housekeeping names executors agents lease
--        | box:* pending:* wake:* asleep
-- ARGV   dims tag at by now member incarnation name reaped
-- now: the server's time in ms.
-- reaped "1": somebody found its lease gone; it must still be so, and the machine is down afterwards, or stays
-- drained (the caller asks only when the store has been up for a lease: after an outage every lease is gone).
-- "0": it leaves by itself, and its machine is gone with it.
-- Reply  {"ok", 1 or 0, tasks put back}, or {"keys", name…} with nothing done
-- Types  names, executors, agents: hash; lease: string that expires; others as in commit.lua
-- Rules  semantics 2 (a machine that goes acknowledges for itself), 17; begins with a deletion (13)

--@include lists binary ranges words done lanes publish links placements losses tasks

local record = redis.call('HGET', agents_key, member)
if not record or match(record, '^%d+') ~= incarnation then return { 'ok', 0, 0 } end
if reaped == '1' and redis.call('EXISTS', lease_key) == 1 then return { 'ok', 0, 0 } end
local index, owner = redis.call('HGET', names_key, name), redis.call('HGET', executors_key, member)
local m = false
if index and owner then
  load_machines({ index })
  m = M[index]
  if m[EXECUTOR] ~= tonumber(owner) or m[STATE] == GONE then m = false end
end
if m then
  load_jobs_on({ index })
  load_awaiting()
  load_kinds_of_jobs()
  local names = lacking()
  if #names > 0 then return answering({ 'keys' }, names) end
end

lost_at = tonumber(now)
redis.call('HDEL', agents_key, member)
redis.call('DEL', lease_key)
fact((reaped == '1' and 'lapse ' or 'leave ') .. member .. ' ' .. incarnation)
local count = 0
if m then
  local state = reaped == '0' and GONE or (m[STATE] == UP and DOWN or m[STATE])
  if m[STATE] ~= state then
    touch(m, 1)
    m[STATE] = state
    fact(with_values(format('machine %s state %d', index, state), m))
  end
  for placement in gmatch(m.runs, ' (%d+):') do
    count = count + end_tasks(m, placement, '*', 'lost', 'agent', 1)
  end
  for placement in gmatch(m.runs, ' !(%d+):') do
    acknowledge(m, placement, '*')
    if not m.touched then
      m.touched = true
      touched[#touched + 1] = m
    end
  end
  if #touched > 0 then meta.transactions = meta.transactions + 1 end
end
end_waits()
publish(at, by, true)
return { 'ok', 1, count }
