-- Names taken under a lease, by schedulers and agents alike (semantics 15): a record begins "incarnation nonce".

-- The nonce on record of a simulated executor whose machines are being released (deregister_executor.lua): no process has it.
local LAPSING = '!'

-- The holder of the member's name: nil when it was never taken, "ok" when this nonce has it (its lease is renewed),
-- "taken" while another holder lives, "lapsed" when that holder's lease expired; then the incarnation.
local function holder(members_key)
  local record = redis.call('HGET', members_key, member)
  if not record then return nil end
  local incarnation, who = match(record, '^(%d+) (%S+)')
  if who == nonce then
    redis.call('SET', lease_key, incarnation, 'PX', lease_ms)
    return 'ok', incarnation
  end
  return redis.call('EXISTS', lease_key) == 1 and 'taken' or 'lapsed', incarnation or '0'  -- 0: it cannot be read
end

-- Assign the name to this nonce as a new incarnation; `rest` is appended to its record; then further fields of the log's entry.
local function take_name(members_key, rest, ...)
  redis.call('HINCRBY', meta_key, 'incarnations', 1)
  local incarnation = redis.call('HGET', meta_key, 'incarnations')
  redis.call('HSET', members_key, member, incarnation .. ' ' .. nonce .. rest)
  redis.call('SET', lease_key, incarnation, 'PX', lease_ms)
  fact('enlist ' .. member .. ' ' .. incarnation)
  announce('', at, member, ...)
  return { 'ok', incarnation }
end
