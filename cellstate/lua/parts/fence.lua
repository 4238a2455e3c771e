-- Whether the sender of a commit may still commit, and whether it repeats its last call (semantics 14, 15).

local counters = redis.call('HMGET', meta_key, 'version', 'floor', 'rules', 'placements', 'transactions', 'pools', 'limits')
if counters[3] ~= "RULES" then return redis.error_reply(counters[2] and 'RULES ' .. (counters[3] or 0) or 'NOCELL none') end
-- Of its last call: its number, and the tag that it gave to the version after it, which is left out before the first.
local nonce, last, last_tag
do
  local record, was = redis.call('HGET', schedulers_key, member), nil
  if record then was, nonce, last, last_tag = match(record, '^(%d+) (%S+) (%d+) ?(%S*)') end
  if was ~= incarnation or redis.call('EXISTS', lease_key) == 0 then return { 'fenced' } end
end
if #number < #last or #number == #last and number < last then return { 'stale' } end
