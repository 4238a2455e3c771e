-- The changes that a snapshot lacks, in one reply (semantics 16, 18).

-- {version, tag, mode, text}: mode "delta" with the records changed after (since, since_tag),
-- or "full" when the version is unknown here (trimmed, or the store went back in time).
local function delta(version, low, since, since_tag)
  if since < low + 1 or since > version then return 'full', '' end
  local entries = redis.call('LRANGE', changes_key, since - low - 1, -1)
  if #entries == 0 or sub(entries[1], 1, 10) ~= since_tag then return 'full', '' end
  local records, n = {}, 0
  for i = 2, #entries do
    if #entries[i] > 10 then
      n = n + 1
      records[n] = sub(entries[i], 11)
    end
  end
  return 'delta', concat(records)
end
