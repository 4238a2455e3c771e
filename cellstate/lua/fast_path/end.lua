-- Ends of the fast path (state.lua): whole runs that finished or failed.

-- A job: its record, where its group, the text of its runs and what follows that begin; its tally; its tasks that wait, run,
-- finished and failed, whether it has begun; its placed tasks before this call; its last ending.
--@const J_RECORD 1, J_GROUP 2, J_RUNS 3, J_REST 4, J_TALLY 5, J_UNPLACED 6, J_PLACED 7, J_FINISHED 8, J_FAILED 9, J_BEGUN 10
--@const J_WAS 11, J_ENDED 12, LONG 100, INDICES_FROM 13
--@include fast_path/state

local fast, limits, pools_limited = true, counters[7] and counters[7] ~= '0', counters[4] == "POOLS_LIMITED"
if pools_limited and hosts[1] or #hosts > LONG then
  -- When the first run is not of a simple job, others are likely alike, and reading them all is in vain.
  local text = redis.call('HGET', runs_key, hosts[1]) or ''
  local _, to = find(text, ' ' .. placed_as[1] .. ':', 1, true)
  local record = to and redis.call('HGET', jobs_key, match(text, '^[^:]+', to + 1))
  fast = record and unpack_numbers('<I4', record, HEAD_BYTES + INDICES_FROM) <= 255
  if fast and pools_limited then
    --@include fast_path/pools
  end
end
repeat -- the fast path
  if not fast then break end
  local n = 0
  for i = 1, #hosts do
    local key = hosts[i]
    if not places[key] then
      n = n + 1
      keys[n], places[key] = key, n
    end
  end
  --@include fast_path/machines
  if not fast then break end
  -- The job and the tasks of each ending's run, false where there is none; the jobs, each once.
  -- The time at which a job was submitted, where an ending names it.
  local owners, parts, jobs, list, times = {}, {}, {}, {}, {}
  --@include fast_path/runs
  if not fast then break end
  local job_records = fetch(jobs_key, list)
  for t = 1, #list do
    fast = false
    local record = job_records[t]
    if pools_limited and record then
      --@include fast_path/pools
      if not fast then break end
      fast = false
    end
    --@include fast_path/running
    fast = true
  end
  if not fast then break end
  local version = counters[1] + 0
  -- Numbers of tasks by their text; the ending before each one of the same job.
  local counts, sizes, before, low = { 'ok', version }, {}, {}, (counters[2] or 0) + 0
  local tasks_finished, tasks_failed, jobs_failed = 0, 0, 0
  --@include fast_path/ends
  if #list == 0 then return counts end
  local done, rows_of_jobs, placing = {}, {}, false
  for t = 1, #list do
    local id = list[t]
    local j = jobs[id]
    fast = false
    --@include fast_path/ended
    fast = true
  end
  if not fast then break end
  --@include fast_path/count
  for i = 1, #changed_lanes do
    if changed_lanes[i][L_LIVE] == 0 then fast = false end  -- the lane is forgotten
  end
  if not fast then break end
  version, jobs = version + 1, rows_of_jobs
  counts[2] = version
  redis.call('HDEL', meta_key, '-')
  local count_text, placements_text = format('%d', (counters[3] or 0) + 1), nil
  -- As parts/totals.lua counts.
  local sums, finished = {}, #done - jobs_failed
  if tasks_finished > 0 then sums[1], sums[2] = 'tasks_finished', format('%d', (counters[8] or 0) + tasks_finished) end
  if finished > 0 then sums[#sums + 1], sums[#sums + 2] = 'jobs_finished', format('%d', (counters[9] or 0) + finished) end
  --@include fast_path/write
  if tasks_failed > 0 then redis.call('HINCRBY', meta_key, 'tasks_failed', tasks_failed) end
  if jobs_failed > 0 then redis.call('HINCRBY', meta_key, 'jobs_failed', jobs_failed) end
  -- As parts/publish.lua notifies.
  local asleep = named.asleep and redis.call('HGETALL', named.asleep) or {}
  local waiting, told, all = {}, {}, not named.owners
  for i = 1, #asleep, 2 do waiting[asleep[i]] = named['wake:' .. asleep[i]] end
  for i = 1, (all or not asleep[1]) and 0 or #changed_lanes do
    local owner = redis.call('HGET', named.owners, changed_lanes[i][L_NUMBER])
    local key = owner and waiting[owner]
    all = all or not key or redis.call('LLEN', key) > 0
    if key then told[key] = true end
  end
  for i = 1, #asleep, 2 do
    local key = waiting[asleep[i]]
    local alone = not all and told[key]
    if key and (all or alone or sub(asleep[i + 1], 1, 1) == '-') and redis.call('LLEN', key) == 0 then
      redis.call('RPUSH', key, alone and 'alone' or '1')
    end
  end
  if #done > 0 then
    --@include done
    retire(done, version, tonumber(counters[5] or 0))
  end
  return counts
until true -- the general path carries out every other call
