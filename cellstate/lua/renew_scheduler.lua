-- Renew the lease of a scheduler, store its figures and return which other members live.
--
-- KEYS   meta schedulers lease stats | lease:*
-- ARGV   member incarnation lease_ms figures
-- Reply  {"ok", known member, live (1 or 0), …} for every member whose lease key was given,
--        or {"fenced"} when the lease lapsed or another incarnation has the name
-- Types  schedulers, stats: hash; lease: string that expires
-- Rules  leases expire on the server's clock; an expired lease is not revived (semantics 15, 17); begins with
--        PEXPIRE, which a full server accepts (13)

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
