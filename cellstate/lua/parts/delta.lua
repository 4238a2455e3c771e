-- What a private copy lacks, in one reply (semantics 16, 18).

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

-- Whether a copy stands in a history this store does not have: it went back in time. What was trimmed
-- cannot be told from what is known.
local function strange(version, low, since, since_tag)
  if since > version then return true end
  if since < low + 1 then return false end
  return sub(redis.call('LINDEX', changes_key, since - low - 1) or '', 1, 10) ~= since_tag
end

-- The next jobs of a kind that became pending after cursor and whose bucket is owned:
-- cursor, then id, arrival, record, spec for each. owned: 256 characters, "1" for an owned bucket.
local function intake(reply, pending_key, cursor, most, owned)
  local found = redis.call('ZRANGEBYSCORE', pending_key, '(' .. cursor, '+inf', 'WITHSCORES', 'LIMIT', 0, most * 4)
  local ids, scores, n = {}, {}, 0
  for i = 1, #found, 2 do
    local bucket = tonumber(sub(found[i], 1, 2), 16) + 1
    cursor = found[i + 1]
    if sub(owned, bucket, bucket) == '1' then
      n = n + 1
      ids[n], scores[n] = sub(found[i], 3), cursor
      if n == most then break end
    end
  end
  reply[#reply + 1] = cursor
  local records, specs = fetch(jobs_key, ids), fetch(specs_key, ids)
  for i = 1, n do
    local at = #reply
    reply[at + 1], reply[at + 2] = ids[i], scores[i]
    reply[at + 3], reply[at + 4] = records[i] or '', specs[i] or ''
  end
end
