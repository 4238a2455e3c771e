-- Names taken under a lease, by schedulers and agents alike (semantics 15): a record begins "incarnation nonce".

-- The nonce on record of a simulated executor whose machines are being given up (deregister_executor.lua): nobody has it.
local LAPSING = '!'

-- Who has the member's name: nil when nobody ever took it, "ok" when this nonce did (its lease is renewed), "taken"
-- while another lives, "lapsed" when that one is gone; then its incarnation.
local function holder(members_key)
  local record = redis.call('HGET', members_key, member)
  if not record then return nil end
  local incarnation, who = match(record, '^(%d+) (%S+)')
  if who == nonce then
    redis.call('SET', lease_key, incarnation, 'PX', lease_ms)
    return 'ok', incarnation
  end
  return redis.call('EXISTS', lease_key) == 1 and 'taken' or 'lapsed', incarnation
end

-- Give the name to this nonce as a new incarnation; `rest` ends its record.
local function take_name(members_key, rest)
  redis.call('HINCRBY', meta_key, 'incarnations', 1)
  local incarnation = redis.call('HGET', meta_key, 'incarnations')
  redis.call('HSET', members_key, member, incarnation .. ' ' .. nonce .. rest)
  redis.call('SET', lease_key, incarnation, 'PX', lease_ms)
  fact('enlist ' .. member .. ' ' .. incarnation)
  announce('', at, member)
  return { 'ok', incarnation }
end
