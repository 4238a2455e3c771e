-- The next jobs of a scheduler, in the reply to its call.

-- A lane with at most READ_AT_ONCE pending jobs is read with one command; otherwise a few jobs of each bucket are read.
-- A call is bounded whatever its arguments are: it asks each of the first MOST_ASKED lanes once, for MOST_TAKEN jobs in all,
-- in BUCKETS buckets.
--@const READ_AT_ONCE 256, OWNED 49, BUCKETS 32, MOST_ASKED 256, MOST_TAKEN 4096

local intake
do
  local function range(key, from, to, skip, count)
    return redis.call('ZRANGEBYSCORE', key, format('(%d', from), format('(%d', to), 'WITHSCORES', 'LIMIT', skip, count)
  end

  -- The arrivals of a lane after one in owned buckets, ascending, and the members of its queue by arrival: of the first `want`
  -- at least.
  local function first_of_lane(key, lane, after, want, owned)
    local row, base = redis.call('HGET', lanes_key, lane), lane * LANE_SPAN
    local pending = row and unpack_numbers('<i8', row, 8 * PENDING - 7) or 0
    local found, members, open = {}, {}, {}
    -- Add a range of entries; returns the arrival of the last one.
    local function add(entries, start)
      local arrival = after
      for i = 1, #entries, 2 do
        arrival = entries[i + 1] - start
        found[#found + 1], members[arrival] = arrival, entries[i]
      end
      return arrival
    end
    if pending == 0 then return found, members end
    if pending <= READ_AT_ONCE then
      local entries = range(key, base, base + LANE_SPAN, 0, -1)
      for i = 1, #entries, 2 do
        local score = entries[i + 1] - base
        local arrival = score % BUCKET_SPAN
        if arrival > after and byte(owned, (score - arrival) / BUCKET_SPAN + 1) == OWNED then
          found[#found + 1], members[arrival] = arrival, entries[i]
        end
      end
      table.sort(found)
      return found, members
    end
    local buckets = {}
    for i = 1, #owned do
      if byte(owned, i) == OWNED then buckets[#buckets + 1] = base + (i - 1) * BUCKET_SPAN end
    end
    local few = math.min(want, floor(want / #buckets) + 2)
    for i = 1, #buckets do
      local start = buckets[i]
      local entries = range(key, start + after, start + BUCKET_SPAN, 0, few)
      local last = add(entries, start)
      if #entries == 2 * few then open[#open + 1] = { start, last } end
    end
    table.sort(found)
    -- A bucket with more jobs before the last wanted one is read again.
    local bound, before = found[want] or math.huge, #found
    for i = 1, few < want and #open or 0 do
      local start = open[i][1]
      if open[i][2] < bound then add(range(key, start + after, start + BUCKET_SPAN, few, want - few), start) end
    end
    if #found > before then table.sort(found) end
    return found, members
  end

  -- The next jobs of some lanes, "lane:arrival:most…": of each in turn those that became pending after that arrival and
  -- whose bucket is owned, at most so many, and `most` in all. owned: a character a bucket, "1" for an owned one.
  -- Adds the last arrival in the cell and how many jobs each lane gave ("-": not asked), then id, arrival, record, spec
  -- for each job.
  function intake(reply, pending_key, asked, most, owned, arrivals)
    local ids, when, counts, n, seen = {}, {}, {}, 0, {}
    most, owned = math.min(most, MOST_TAKEN), sub(owned, 1, BUCKETS)
    for lane, after, quota in gmatch(asked, '(%d+):(%d+):(%d+)') do
      if #counts == MOST_ASKED then break end
      local number = tonumber(lane)
      local want, given = seen[number] and 0 or math.min(tonumber(quota), most - n), 0
      seen[number] = true
      if want > 0 and find(owned, '1', 1, true) then
        local found, members = first_of_lane(pending_key, number, tonumber(after), want, owned)
        given = math.min(want, #found)
        for i = 1, given do
          n = n + 1
          when[n], ids[n] = found[i], sub(members[found[i]], 3)
        end
      end
      counts[#counts + 1] = want > 0 and given or '-'
    end
    local at = #reply + 2
    reply[at - 1], reply[at] = arrivals, concat(counts, ',')
    local records, specs = fetch(jobs_key, ids), fetch(specs_key, ids)
    for i = 1, n do
      reply[at + 1], reply[at + 2], reply[at + 3], reply[at + 4] = ids[i], when[i], records[i] or '', specs[i] or ''
      at = at + 4
    end
  end
end
