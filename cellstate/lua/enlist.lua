-- A scheduler takes its name: a new incarnation, unless this nonce already has it.
--
-- KEYS   meta machines runs jobs specs jobnames kinds changes log done schedulers lease
-- ARGV   dims tag at member nonce lease_ms
-- Reply  {"ok", incarnation} or {"taken"} when a live scheduler has the name
-- Types  lease: string that expires; others as in commit.lua
-- Rules  counter + nonce, resending is idempotent (semantics 15)

--@include lists binary words ranges publish

local record = redis.call('HGET', schedulers_key, member)
if record then
  local incarnation, holder = match(record, '^(%d+) (%S+)')
  if holder == nonce then
    redis.call('SET', lease_key, incarnation, 'PX', lease_ms)
    return { 'ok', incarnation }
  end
  if redis.call('EXISTS', lease_key) == 1 then return { 'taken' } end
end
redis.call('HINCRBY', meta_key, 'incarnations', 1)
local incarnation = redis.call('HGET', meta_key, 'incarnations')
redis.call('HSET', schedulers_key, member, incarnation .. ' ' .. nonce .. ' 0\n')
redis.call('SET', lease_key, incarnation, 'PX', lease_ms)
fact('enlist ' .. member .. ' ' .. incarnation)
announce('', at, member)
return { 'ok', incarnation }
