-- What a working copy lacks, in one reply (semantics 16, 18).

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
local function history_diverged(version, low, since, since_tag)
  if since > version then return true end
  if since < low + 1 then return false end
  return sub(redis.call('LINDEX', changes_key, since - low - 1) or '', 1, 10) ~= since_tag
end

local intake
do
  -- The first entries {arrival, member} of a lane in some buckets after an arrival, the earliest first: at most so many.
  -- Each bucket gives a few; one that has more in front of the last that is wanted is asked again.
  local function first_of_lane(key, lane, after, want, buckets)
    local found, open, few = {}, {}, math.min(want, math.floor(2 * want / #buckets) + 1)
    local function read(bucket, skip, count)
      local base = lane * 274877906944 + bucket * 8589934592
      local entries = redis.call('ZRANGEBYSCORE', key, string.format('(%d', base + after),
        string.format('(%d', base + 8589934592), 'WITHSCORES', 'LIMIT', skip, count)
      for i = 1, #entries, 2 do found[#found + 1] = { tonumber(entries[i + 1]) - base, entries[i] } end
      return #entries == 2 * count and found[#found][1]
    end
    for i = 1, #buckets do
      local last = read(buckets[i], 0, few)
      if last then open[#open + 1] = { buckets[i], last } end
    end
    local function earlier(a, b) return a[1] < b[1] end
    table.sort(found, earlier)
    if few < want and #open > 0 then
      local bound, before = found[want] and found[want][1] or math.huge, #found
      for i = 1, #open do
        if open[i][2] < bound then read(open[i][1], few, want - few) end
      end
      if #found > before then table.sort(found, earlier) end
    end
    return found
  end

  -- The next jobs of some lanes, "lane:arrival:most…": of each in turn those that became pending after that arrival and
  -- whose bucket is owned, at most so many, and `most` in all. owned: a character a bucket, "1" for an owned one.
  -- Adds the last arrival in the cell and how many jobs each lane gave ("-": not asked), then id, arrival, record, spec
  -- for each job.
  function intake(reply, pending_key, asked, most, owned, arrivals)
    local buckets, ids, when, counts = {}, {}, {}, {}
    for i = 1, #owned do
      if sub(owned, i, i) == '1' then buckets[#buckets + 1] = i - 1 end
    end
    for lane, after, quota in gmatch(asked, '(%d+):(%d+):(%d+)') do
      local want = math.min(tonumber(quota), most - #ids)
      local found = {}
      if want > 0 and #buckets > 0 then
        found = first_of_lane(pending_key, tonumber(lane), tonumber(after), want, buckets)
      end
      local given = math.min(want, #found)
      for i = 1, given do
        ids[#ids + 1], when[#when + 1] = sub(found[i][2], 3), found[i][1]
      end
      counts[#counts + 1] = want > 0 and string.format('%d', given) or '-'
    end
    reply[#reply + 1] = string.format('%d', arrivals)
    reply[#reply + 1] = concat(counts, ',')
    local records, specs = fetch(jobs_key, ids), fetch(specs_key, ids)
    for i = 1, #ids do
      local at = #reply
      reply[at + 1], reply[at + 2] = ids[i], string.format('%d', when[i])
      reply[at + 3], reply[at + 4] = records[i] or '', specs[i] or ''
    end
  end
end
