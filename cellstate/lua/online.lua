-- Bring the offline machines of a live executor up.
--
-- KEYS   meta machines runs jobs specs jobnames kinds lanes lanenames pools changes log done recent history results housekeeping shapes executors agents lease
--        | box:* wake:* asleep owners
-- ARGV   dims tag at member incarnation | machines
-- Reply  {"ok", machines that are up now}, {"fenced"} when its lease lapsed or another incarnation has the name, or
--        {"keys", name…} with nothing done
-- Types  executors, agents: hash; lease: string that expires; others as in commit.lua
-- Rules  semantics 31; a drained or down machine stays unchanged; a repeated call changes nothing (14)

--@include lists listing binary rows named counters
--@inner
--@include announce ranges records done pools lanes totals publish shapes

local record = redis.call('HGET', agents_key, member)
if not record or match(record, '^%d+') ~= incarnation then return { 'fenced' } end
if redis.call('GET', lease_key) ~= incarnation then return { 'fenced' } end
local owner, wanted = tonumber(redis.call('HGET', executors_key, member)), {}
for i = fixed_args + 1, #ARGV do wanted[#wanted + 1] = ARGV[i] end
load_machines(wanted)
local lack = lacking()
if lack then return lack end

for _, index in ipairs(wanted) do
  local m = M[index]
  if m and m[STATE] == OFFLINE and m[EXECUTOR] == owner then
    touch(m, 1)
    shapes.leave(m)
    m[STATE] = UP
    fact(with_values(format('machine %s state %d', index, UP), m))
  end
end
if #touched > 0 then
  meta.transactions, freed = meta.transactions + 1, true
  publish(at, member, false)
  shapes.write()
end
return { 'ok', #touched }
