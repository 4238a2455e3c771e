-- Keep how far the tasks of a job on a machine have come, as they report it.
--
-- KEYS   meta progress
-- ARGV   machine text expire_ms
-- text: "group:task:percent" each; empty: none of them runs any more
-- Reply  {"ok"}
-- Types  progress: hash of the job that expires, machine → text
-- Rules  replaces what the machine reported before; begins with HDEL or HSET, which a full server refuses (semantics 13)

if redis.call('EXISTS', meta_key) == 0 then return { 'ok' } end  -- there is no such cell
if text == '' then
  redis.call('HDEL', progress_key, machine)
else
  redis.call('HSET', progress_key, machine, text)
  redis.call('PEXPIRE', progress_key, expire_ms)
end
return { 'ok' }
