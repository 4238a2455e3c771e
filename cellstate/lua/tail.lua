-- Store the last output of tasks for readers on other machines, bounded in number and time.
--
-- KEYS   meta output outputs
-- ARGV   most expire_ms | pairs
-- A pair is a field "job group task stream" and a text; the text replaces the one before it.
-- Reply  {"ok", fields kept}
-- Types  output: hash; outputs: list of its fields, the oldest first; both expire together
-- Rules  bounded: the oldest are deleted; begins with HSET, which a full server refuses (semantics 13)

for i = fixed_args + 1, #ARGV, 2 do
  if redis.call('HSET', output_key, ARGV[i], ARGV[i + 1]) == 1 then redis.call('RPUSH', outputs_key, ARGV[i]) end
end
local kept = redis.call('LLEN', outputs_key)
while kept > tonumber(most) do
  redis.call('HDEL', output_key, redis.call('LPOP', outputs_key))
  kept = kept - 1
end
redis.call('PEXPIRE', output_key, expire_ms)
redis.call('PEXPIRE', outputs_key, expire_ms)
return { 'ok', kept }
