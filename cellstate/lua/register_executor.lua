-- Register a simulated executor under its name: a new incarnation, unless this nonce already has the name. Its machines
-- are brought up afterwards (online.lua). Their tasks continue, as simulated tasks exist in the store alone.
--
-- KEYS   meta machines runs jobs specs jobnames kinds lanes lanenames pools changes log done recent history results housekeeping executors agents serving lease
-- ARGV   dims tag at member nonce lease_ms
-- member is the executor's name.
-- Reply  {"ok", incarnation}, {"taken"} when a live one has the name, {"lapsed", incarnation} while the machines of the
--        last one are being released (deregister_executor.lua)
-- Types  executors, agents, serving: hash; lease: string that expires; others as in commit.lua
-- Rules  counter + nonce: resending is idempotent (semantics 15); an executor lives exactly while its lease holds (17)

--@include lists listing binary rows named counters
--@inner
--@include announce ranges records done pools lanes totals publish serving leases

local record = redis.call('HGET', agents_key, member)
if record and match(record, '^%d+ (%S+)') == LAPSING then return { 'lapsed', match(record, '^%d+') } end
local held, incarnation = holder(agents_key)
if held == 'taken' then return { 'taken' } end
if held == 'ok' then return { 'ok', incarnation } end
serve(member)
return take_name(agents_key, ' ' .. lease_ms)
