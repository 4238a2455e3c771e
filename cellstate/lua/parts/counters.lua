-- The cell's counters.

local COUNTERS = { 'version', 'floor', 'placements', 'arrivals', 'transactions', 'jobs', 'lanes', 'keep_jobs', 'keep_ms', 'pools', 'limits', 'schema' }
local meta, meta_was = {}, {}
do
  local values = redis.call('HMGET', meta_key, unpack(COUNTERS))
  for i = 1, #COUNTERS do
    local value = tonumber(values[i]) or 0
    meta[COUNTERS[i]], meta_was[i] = value, value
  end
end
if meta.schema ~= SCHEMA then return redis.error_reply(meta.schema == 0 and 'NOCELL none' or 'SCHEMA another') end
