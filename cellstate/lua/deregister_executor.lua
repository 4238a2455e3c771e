-- Deregister an executor that leaves or whose lease expired: tasks on its machines are lost and pending again, once.
--
-- KEYS   meta machines runs placed jobs specs jobnames kinds lanes lanenames pools changes log done recent history results housekeeping waiters shapes names executors agents serving lease
--        | box:* pending:* wake:* asleep owners
-- ARGV   dims tag at by now member incarnation name reaped step | machines
-- now: the server's time in ms.
-- reaped "1": another process found its lease expired; it must still be expired (the caller checks that the store has
-- been up for a lease: after an outage every lease has expired). "0": it leaves by itself.
-- step "whole": an agent, whose only machine is `name`; the machine is offline afterwards, or stays as it is when it
-- was not up (semantics 36). A simulated executor takes several calls, as its tasks are many:
-- "begin": from now on the name cannot be taken and none of its machines comes up; "part": release these machines;
-- "end": all are released, the name is free.
-- Reply  {"ok", 1 or 0, tasks put back}, or {"keys", name…} with nothing done
-- Types  names, executors, agents, serving: hash; lease: string that expires; others as in commit.lua
-- Rules  semantics 2 (leaving tasks of an executor without a lease have ended), 17, 23; begins with a deletion (13)

--@include lists listing binary rows named counters
--@inner
--@include announce ranges records done pools lanes totals publish shapes links placements losses copies tasks serving leases

local record = redis.call('HGET', agents_key, member)
if not record or (match(record, '^%d+ %S+') and match(record, '^%d+') or '0') ~= incarnation then return { 'ok', 0, 0 } end
local lapsing = match(record, '^%d+ (%S+)') == LAPSING
if lapsing == (step == 'begin') and step ~= 'whole' then return { 'ok', lapsing and 1 or 0, 0 } end
if not lapsing and reaped == '1' and redis.call('EXISTS', lease_key) == 1 then return { 'ok', 0, 0 } end
local owner, wanted, mine = tonumber(redis.call('HGET', executors_key, member) or 0), {}, {}
if step == 'whole' then wanted[1] = redis.call('HGET', names_key, name) or nil end
for i = fixed_args + 1, #ARGV do wanted[#wanted + 1] = ARGV[i] end
load_machines(wanted)
for _, index in ipairs(wanted) do
  if M[index] and M[index][EXECUTOR] == owner then mine[#mine + 1] = index end
end
load_jobs_on(mine)
load_kinds_of_jobs()
local lack = #mine > 0 and lacking()
if lack then return lack end

local began = step == 'begin' or step == 'whole'
if began then fact((reaped == '1' and 'lapse ' or 'leave ') .. member .. ' ' .. incarnation) end
losses.lost_at = tonumber(now)
local why = (step == 'whole' and 'agent' or 'executor') .. (reaped == '1' and '' or ' left')
local function give_up(index)
  local m, count = M[index], 0
  local state = (m[STATE] == UP or m[STATE] == UNFIT) and OFFLINE or m[STATE]
  if m[STATE] ~= state then
    touch(m, 1)
    shapes.leave(m)
    m[STATE] = state
    fact(with_values(format('machine %s state %d', index, state), m))
  end
  for placement in gmatch(m.runs, ' (%d+):') do
    count = count + end_tasks(m, placement, '*', 'lost', why, 1)
  end
  for placement in gmatch(m.runs, ' !(%d+):') do
    acknowledge(m, placement, '*', '-')
    if not m.touched then
      m.touched = true
      touched[#touched + 1] = m
    end
  end
  return count
end

local count = 0
for _, index in ipairs(mine) do count = count + give_up(index) end
lack = end_waits()
if lack then return lack end
redis.call('HDEL', meta_key, '-')
if began then
  redis.call('HDEL', serving_key, format('%d', owner))
  redis.call('DEL', lease_key)
end
if step == 'begin' then
  redis.call('HSET', agents_key, member, incarnation .. ' ' .. LAPSING .. (match(record, ' %d+$') or ' 0'))
elseif step ~= 'part' then
  redis.call('HDEL', agents_key, member)
end
if #touched > 0 then meta.transactions = meta.transactions + 1 end
if began or #touched > 0 then
  publish(at, by, true)
  shapes.write()
end
return { 'ok', 1, count }
