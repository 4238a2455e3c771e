-- Record that a live executor cannot start tasks, or can again: its machines take no claims meanwhile, and keep their tasks.
--
-- KEYS   meta machines runs jobs specs jobnames kinds lanes lanenames pools changes log done recent history results housekeeping shapes executors agents serving lease
--        | box:* wake:* asleep owners
-- ARGV   dims tag at member incarnation reason | machines
-- reason: why, "-" when it can start tasks again.
-- Reply  {"ok", machines whose state changed}, {"fenced"} when its lease lapsed or another incarnation has the name, or
--        {"keys", name…} with nothing done
-- Types  executors, agents, serving: hash; lease: string that expires; others as in commit.lua
-- Rules  semantics 31; a drained or down machine keeps its state, and becomes unfit when it is set up (machine.lua); a
--        repeated call changes nothing (14)

--@include lists listing binary rows named counters
--@inner
--@include announce ranges records done pools lanes totals publish shapes serving

local record = redis.call('HGET', agents_key, member)
if not record or match(record, '^%d+') ~= incarnation then return { 'fenced' } end
if redis.call('GET', lease_key) ~= incarnation then return { 'fenced' } end
local owner, wanted = tonumber(redis.call('HGET', executors_key, member)), {}
for i = fixed_args + 1, #ARGV do wanted[#wanted + 1] = ARGV[i] end
load_machines(wanted)
local lack = lacking()
if lack then return lack end

local said = reason == '-' and member or member .. ' ' .. reason
local news = redis.call('HGET', serving_key, format('%d', owner)) ~= said
redis.call('HSET', serving_key, format('%d', owner), said)
if news then
  fact((reason == '-' and 'fit ' or 'unfit ') .. member .. ' ' .. incarnation .. (reason == '-' and '' or ' ' .. reason))
end
local state = own_state(owner)
for _, index in ipairs(wanted) do
  local m = M[index]
  if m and m[EXECUTOR] == owner and (m[STATE] == UP or m[STATE] == UNFIT) and m[STATE] ~= state then
    touch(m, 1)
    shapes.leave(m)
    m[STATE] = state
    fact(with_values(format('machine %s state %d', index, state), m))
  end
end
if #touched > 0 then meta.transactions, freed = meta.transactions + 1, true end
if news or #touched > 0 then
  publish(at, member, false)
  shapes.write()
end
return { 'ok', #touched }
