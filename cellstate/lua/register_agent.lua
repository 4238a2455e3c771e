-- Register an agent under its name: a new incarnation, unless this nonce already has the name.
--
-- KEYS   meta machines runs jobs specs jobnames kinds lanes lanenames pools changes log done recent history results housekeeping names executors agents serving lease
-- ARGV   dims tag at member name nonce lease_ms
-- member is "agent/NAME", the name of its executor; name is that of its machine.
-- Reply  {"ok", incarnation}, {"taken"} when a live agent has the name, {"lapsed", incarnation} when the tasks
--        of one that is gone were not put back yet (deregister_executor.lua), {"machine"} when another executor has the machine
-- Types  names, executors, agents, serving: hash; lease: string that expires; others as in commit.lua
-- Rules  counter + nonce: resending is idempotent, and an agent that crashed resumes its tasks with the nonce on its
--        disk (semantics 15); an agent lives exactly while its lease holds (17)

--@include lists listing binary rows named counters
--@inner
--@include announce ranges records done pools lanes totals publish serving leases

local held, incarnation = holder(agents_key)
if held == 'taken' then return { 'taken' } end
if held then return { held, incarnation } end
local index = redis.call('HGET', names_key, name)
if index then
  load_machines({ index })
  local m = M[index]
  if (m[STATE] ~= GONE or m.runs ~= '') and m[EXECUTOR] ~= number_of(member) then return { 'machine' } end
end
serve(member)
return take_name(agents_key, ' ' .. lease_ms)
