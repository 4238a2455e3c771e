-- The cell's counters.

local COUNTERS = { 'version', 'floor', 'placements', 'arrivals', 'transactions', 'jobs', 'lanes', 'keep_jobs', 'keep_ms', 'pools', 'limits', 'rules' }
local meta, meta_was = {}, {}
do
  local values = redis.call('HMGET', meta_key, unpack(COUNTERS))
  for i = 1, #COUNTERS do
    local value = tonumber(values[i]) or 0
    meta[COUNTERS[i]], meta_was[i] = value, value
  end
end
if meta.rules ~= RULES then
  return redis.error_reply(redis.call('EXISTS', meta_key) == 0 and 'NOCELL none' or 'RULES ' .. meta.rules)
end
