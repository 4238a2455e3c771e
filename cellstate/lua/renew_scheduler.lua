-- A scheduler renews its lease, leaves its figures and learns who else lives.
--
-- KEYS   meta schedulers lease stats | lease:*
-- ARGV   member incarnation lease_ms figures
-- Reply  {"ok", known member, live (1 or 0), …} for every member whose lease key was given,
--        or {"fenced"} when the lease lapsed or another incarnation has the name
-- Types  schedulers, stats: hash; lease: string that expires
-- Rules  expiry is the server's alone; a lapsed lease is not revived (semantics 15, 17); begins with
--        PEXPIRE, so a full server lets it pass (13)

local record = redis.call('HGET', schedulers_key, member)
if not record or string.match(record, '^%d+') ~= incarnation then return { 'fenced' } end
if redis.call('GET', lease_key) ~= incarnation then return { 'fenced' } end
redis.call('PEXPIRE', lease_key, lease_ms)
redis.call('HSET', stats_key, member, figures)
local answer = { 'ok' }
for i = fixed_keys + 1, #KEYS do
  answer[#answer + 1] = string.match(KEYS[i], '}:lease:(.*)$')
  answer[#answer + 1] = redis.call('EXISTS', KEYS[i])
end
return answer
