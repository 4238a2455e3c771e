-- Deregister a scheduler that leaves or whose lease expired: its record is deleted; the others take over its jobs.
--
-- KEYS   meta machines runs jobs specs jobnames kinds lanes lanenames pools changes log done recent history results housekeeping schedulers lease
-- ARGV   dims tag at member incarnation reaped
-- reaped "1": another process found its lease expired; it must still be expired (the caller checks that the store has
-- been up for a lease: after an outage every lease has expired, semantics 17). "0": it leaves by itself.
-- Reply  {"ok", 1 or 0}
-- Types  as in register_scheduler.lua

--@include lists listing binary rows named counters
--@inner
--@include announce ranges records done pools lanes totals publish

local record = redis.call('HGET', schedulers_key, member)
if not record or match(record, '^%d+') ~= incarnation then return { 'ok', 0 } end
if reaped == '1' and redis.call('EXISTS', lease_key) == 1 then return { 'ok', 0 } end
redis.call('HDEL', schedulers_key, member)
redis.call('DEL', lease_key)
fact((reaped == '1' and 'lapse ' or 'leave ') .. member .. ' ' .. incarnation)
announce('', at, member)
return { 'ok', 1 }
