-- Trim the change list to the versions that at the rate of the last ones have about half as many rows as there are machines: a full
-- read costs little more than a longer list. At least ROWS_LEAST rows and CHANGES_LEAST versions stay, at most CHANGES_MOST.
local recent, bytes = redis.call('LRANGE', changes_key, -TRIM_SAMPLE, -1), 1
for i = 1, #recent do bytes = bytes + #recent[i] end
local rows = math.max(ROWS_LEAST, redis.call('HLEN', machines_key) / 2)
local kept = math.max(CHANGES_LEAST, math.min(CHANGES_MOST, floor(#recent * rows * 8 * (4 + 2 * R) / bytes)))
if version - low > kept then
  redis.call('LTRIM', changes_key, -kept, -1)
  low = version - kept
end
-- The log is trimmed here, too: trimming it with each entry would cost a tenth of writing the entry.
redis.call('XTRIM', log_key, 'MAXLEN', '~', LOG_KEPT)
