-- The cell's counters, and the keys that a call was given.

--@const CHANGES_KEPT 8192, LOG_KEPT 50000, MAILBOX_MOST 200000, POOLS_LIMITED 2
local COUNTERS = { 'version', 'floor', 'placements', 'arrivals', 'transactions', 'jobs', 'lanes', 'keep_jobs', 'keep_ms', 'pools' }
local meta, meta_was = {}, {}
do
  local values = redis.call('HMGET', meta_key, unpack(COUNTERS))
  for i = 1, #COUNTERS do
    local value = tonumber(values[i]) or 0
    meta[COUNTERS[i]], meta_was[i] = value, value
  end
end

-- Keys beyond the fixed ones, by what follows the cell's tag: pending:KIND, box:EXECUTOR, wake:MEMBER, asleep.
local named = {}
do
  local after = #meta_key - 3  -- they begin alike; meta ends the first
  for i = fixed_keys + 1, #KEYS do named[sub(KEYS[i], after)] = KEYS[i] end
end
