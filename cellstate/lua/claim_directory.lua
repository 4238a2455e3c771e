-- Claim the output directory of a MapReduce job, or give the claim up.
--
-- KEYS   meta jobs directory
-- ARGV   dims job expire_ms unsent_ms
-- expire_ms: when the claim expires; 0 gives it up. unsent_ms: the longest time for which a claim holds whose job is not
-- stored: it is claimed just before the job is submitted.
-- Reply  {"ok"}, or {"held", id} with nothing done: the directory belongs to a live job
-- Types  directory: string of the directory's path that expires, the id of the job; jobs: hash
-- Rules  the claim of a job that has ended, or that is stored no longer, holds nobody; a repeated call is ok (14)

--@include lists listing binary ranges rows records

local holder, keeps = redis.call('GET', directory_key), tonumber(expire_ms) > 0
if keeps and holder and holder ~= job then
  load_jobs({ holder })
  local j = J[holder]
  local unsent = not j and redis.call('PTTL', directory_key) <= tonumber(unsent_ms)
  if unsent or j and not j.was_complete then return { 'held', holder } end
end
if keeps then
  redis.call('SET', directory_key, job, 'PX', expire_ms)
elseif holder == job then
  redis.call('DEL', directory_key)
end
return { 'ok' }
