-- The list of finished jobs, "id version" each, oldest first.

-- The name of a job, by its record.
local function name_of(id, record)
  local name = read_texts(record)
  return name ~= '' and name or id
end

local forget
do
  -- Delete what the digest of the log kept of jobs (cellstate/digest): "group:chunks;…" of a job lists its results.
  local function forget_records(ids)
    in_chunks('HDEL', history_key, ids)
    if redis.call('EXISTS', results_key) == 0 then return end
    local fields = {}
    for i, chunks in ipairs(fetch(results_key, ids)) do
      if chunks then fields[#fields + 1] = ids[i] end
      for group, numbers in gmatch(chunks or '', '(%d+):([%d,-]+)') do
        for first, last in gmatch(numbers, '(%d+)%-?(%d*)') do
          for chunk = tonumber(first), tonumber(last) or tonumber(first) do
            fields[#fields + 1] = ids[i] .. ' ' .. group .. ' ' .. format('%d', chunk)
          end
        end
      end
    end
    in_chunks('HDEL', results_key, fields)
  end

  -- Whether a job that ended is kept: tasks of it are leaving, or jobs that wait for it are being released.
  local function is_needed(record)
    return byte(record, LEAVING_AT) == 1 or find((select(-2, read_texts(record))), '>*', 1, true) ~= nil
  end

  -- Delete the jobs of the first entries of the list; jobs that are still needed are moved to its end instead.
  -- Returns the number of deleted jobs.
  function forget(oldest)
    local ids, gone, back, names, free = {}, {}, {}, {}, {}
    for i = 1, #oldest do ids[i] = match(oldest[i], '^%S+') end
    local records = fetch(jobs_key, ids)
    for i = 1, #ids do
      if records[i] and is_needed(records[i]) then
        back[#back + 1] = oldest[i]
      else
        gone[#gone + 1] = ids[i]
        names[#gone] = records[i] and name_of(ids[i], records[i]) or ids[i]
      end
    end
    for i, holder in ipairs(fetch(jobnames_key, names)) do  -- a newer job of that name keeps it
      if holder and (holder == gone[i] or holder == '' and names[i] == gone[i]) then free[#free + 1] = names[i] end
    end
    in_chunks('HDEL', jobs_key, gone)
    in_chunks('HDEL', specs_key, gone)
    in_chunks('HDEL', jobnames_key, free)
    forget_records(gone)
    in_chunks('ZREM', recent_key, gone)
    redis.call('LTRIM', done_key, #ids, -1)
    in_chunks('RPUSH', done_key, back)
    return #gone
  end
end

-- Add jobs that ended in a version. Finished jobs beyond the stored number are deleted, a few per call (semantics 21);
-- retire.lua deletes them by age. An entry names the version in which its job ended, because times of clients decide
-- nothing (30). A job with leaving tasks is moved to the end: tasks placed in their room need its amounts (2).
local function retire(ids, version, keep)
  local entries, ended = {}, format(' %d', version)
  for i = 1, #ids do entries[i] = ids[i] .. ended end
  in_chunks('RPUSH', done_key, entries)
  local excess = math.min(redis.call('LLEN', done_key) - keep, #ids + 4)
  if excess > 0 then forget(redis.call('LRANGE', done_key, 0, excess - 1)) end
end
