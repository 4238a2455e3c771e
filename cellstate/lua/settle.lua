-- End an update of a job: it is complete, or it stopped because its new tasks fail.
--
-- KEYS   meta machines runs jobs specs jobnames kinds lanes lanenames pools changes log done recent history results housekeeping updates
-- ARGV   dims tag at by job reason
-- reason: why it stopped; "" when the update is complete.
-- Reply  {"ok", 1 when this changed anything, else 0}
-- Types  updates: hash; others as in commit.lua
-- Rules  without an update in progress nothing changes (semantics 14); the record of an update is deleted, without a fact,
--        once its job is no longer kept

--@include lists listing binary rows named counters
--@inner
--@include announce ranges records done pools lanes totals publish

if redis.call('HEXISTS', jobs_key, job) == 0 then
  redis.call('HDEL', updates_key, job)
  return { 'ok', 0 }
end
if redis.call('HGET', updates_key, job) ~= 'rolling' then return { 'ok', 0 } end
redis.call('HDEL', updates_key, job)
if reason ~= '' then redis.call('HSET', updates_key, job, 'stalled ' .. reason) end
fact((reason == '' and 'updated ' or 'stalled ') .. job .. (reason == '' and '' or ' ' .. reason))
publish(at, by, true)
return { 'ok', 1 }
