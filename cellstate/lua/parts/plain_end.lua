-- Ends of the plain form (parts/plain.lua): whole runs that finished or failed.

-- A job: its record, where its group begins, its lane, what a task needs, its runs after a comma, where the rest of its
-- group begins; what changes of its counts, whether it has begun; its placed tasks before this call, and where its
-- name stands.
--@const J_RECORD 1, J_GROUP 2, J_LANE 3, J_NEED 4, J_RUNS 5, J_REST 6, J_UNPLACED 7, J_PLACED 8, J_FINISHED 9, J_FAILED 10
--@const J_BEGUN 11, J_WAS 12, J_NAME 13, LONG 200
local counters = redis.call('HMGET', meta_key, 'version', 'floor', 'transactions', 'pools', 'keep_jobs', 'schema')
if tonumber(counters[6] or SCHEMA) ~= SCHEMA then return redis.error_reply('SCHEMA another') end

-- A job of the plain form that runs; else nil.
local function read(record)
  local form, state, begun, _, leaving, size, more = byte(record, 1, 7)
  local a, b, c, d = byte(record, LINKS_AT, LINKS_AT + 3)
  if form + state + leaving + more + a + b + c + d ~= 0 or size ~= 1 then return nil end
  local name = LANE_AT + 1 + byte(record, LANE_AT)
  local kind = name + 1 + byte(record, name)
  local group = kind + 1 + byte(record, kind)
  local lane = sub(record, LANE_AT + 1, name - 1)
  local l = lanes_of[lane]
  if l == nil then l = read_lane(lane, sub(record, kind + 1, group - 1)) end
  group = group + 1 + byte(record, group)
  local unplaced, placed, finished, failed, _, delayed, _, _, optional, wide, more_wide =
    byte(record, group + COUNTS_AT + 2, group + COUNTS_AT + 12)
  local runs = group + WAITING_AT + 4 + wide
  local e, f, g = byte(record, runs, runs + 2)
  local rest = runs + 4 + e + 256 * f
  if not l or more_wide + g + delayed + optional ~= 0 or rest + 3 + 4 * R ~= #record then return nil end
  local bytes = sub(record, rest + 4)
  local need = needs_of[bytes]
  if not need then
    need = { unpack_numbers(NEEDS, bytes) }
    needs_of[bytes] = need
  end
  return {
    record, group, l, need, ',' .. sub(record, runs + 4, rest - 1), rest, unplaced, placed, finished, failed, begun, placed,
    name }
end

-- Take the runs off their machines. Returns the job and the tasks of each ending's run, false where there is none; nothing
-- when one is not of the plain form.
local function take_runs(machines)
  local ids, parts, n, i = {}, {}, 0, fixed_args + 1
  while ARGV[i] do
    local how, tasks, of = match(ARGV[i], '^(%S+) (%S+) (%S+)')
    if how ~= 'finished' and how ~= 'failed' then return nil end
    local last_at = i + 2 * ARGV[i + 1]
    for k = i + 2, last_at, 2 do
      local m = machines[ARGV[k]]
      local runs = m[M_RUNS]
      local from, to = find(runs, ' ' .. ARGV[k + 1] .. ':', 1, true)
      n = n + 1
      if from then
        local _, last, id, group, part = find(runs, '^([^:]+):(%d+):(%S+)', to + 1)
        if group ~= '0' or tasks ~= '*' and tasks ~= part then return nil end
        m[M_RUNS] = from == 1 and sub(runs, last + 1) or sub(runs, 1, from - 1) .. sub(runs, last + 1)
        ids[n], parts[n] = id, part
      elseif of == '-' then
        ids[n] = false
      else
        return nil
      end
    end
    i = last_at + 2
  end
  return ids, parts
end

-- End the tasks of a run in the records of its job and machine; returns how many, and nothing as above.
local function end_run(j, m, item, part, how)
  local runs, need, k, count = ',', j[J_NEED], j[J_LANE][L_KIND], j[J_PLACED]
  if j[J_RUNS] ~= item then
    runs = j[J_RUNS]
    local from, to = find(runs, item, 1, true)
    if not from then return nil end
    runs = from == 1 and sub(runs, to) or sub(runs, 1, from) .. sub(runs, to + 1)
    count = 1
    if find(part, '%D') then
      count = 0
      for first, last in gmatch(part, '(%d+)%-?(%d*)') do count = count + (last == '' and 1 or last - first + 1) end
    end
  end
  j[J_RUNS], j[J_PLACED] = runs, j[J_PLACED] - count
  if how == 'finished' then
    j[J_FINISHED] = j[J_FINISHED] + count
  else
    j[J_FAILED], j[J_BEGUN] = j[J_FAILED] + count, 1
  end
  for d = 1, R do
    local amount = need[d] * count
    m[M_USED + d], k[K_USED + d] = m[M_USED + d] - amount, k[K_USED + d] - amount
  end
  return count
end

-- Count a job's ends in its lane and kind; returns its record, and whether it has nothing left to do.
local function close(id, j)
  local l, record, group, count = j[J_LANE], j[J_RECORD], j[J_GROUP], j[J_WAS] - j[J_PLACED]
  local done, k = j[J_PLACED] + j[J_UNPLACED] == 0, l[L_KIND]
  if not l[L_CHANGED] then changed_lanes[#changed_lanes + 1], l[L_CHANGED], k[K_CHANGED] = l, true, true end
  l[L_LIVE + 1] = l[L_LIVE + 1] - count
  for d = 1, R do l[L_HELD + d] = l[L_HELD + d] - j[J_NEED][d] * count end
  if j[J_PLACED] == 0 then l[L_LIVE + 2], k[K_JOBS] = l[L_LIVE + 2] - 1, k[K_JOBS] - 1 end
  if done then
    l[L_LIVE] = l[L_LIVE] - 1
    lines[#lines + 1] = 'done ' .. id .. ' ' .. STATES[DONE]
  end
  local low, high = byte(record, group + WAITING_AT, group + WAITING_AT + 1)
  local at_runs, runs = group + WAITING_AT + 4 + low + 256 * high, #j[J_RUNS] - 1
  return char(0, done and DONE or ACTIVE, j[J_BEGUN]) .. sub(record, LEAVING_AT - 1, group + COUNTS_AT + 2)
    .. char(j[J_PLACED], j[J_FINISHED], j[J_FAILED]) .. sub(record, group + COUNTS_AT + 6, at_runs - 1)
    .. char(runs % 256, floor(runs / 256), 0, 0) .. sub(j[J_RUNS], 2) .. sub(record, j[J_REST]), done
end

-- The machines of a call, each once, as a list and by index.
local function machines_named()
  local list, known, n, i = {}, {}, 0, fixed_args + 1
  while ARGV[i] do
    local last = i + 2 * ARGV[i + 1]
    for k = i + 2, last, 2 do
      local key = ARGV[k]
      if not known[key] then
        n = n + 1
        list[n], known[key] = key, true
      end
    end
    i = last + 2
  end
  return list, known
end

-- The jobs of these ids, each once, and the list of them; nil when one is not of the plain form.
local function read_jobs(ids)
  local list, jobs = {}, {}
  for i = 1, #ids do
    local id = ids[i]
    if id and not jobs[id] then jobs[id], list[#list + 1] = true, id end
  end
  local records = fetch(jobs_key, list)
  for i = 1, #list do
    local j = records[i] and read(records[i])
    if not j then return nil end
    jobs[list[i]] = j
  end
  return jobs, list
end

-- Whether the first run of a long call is of a plain job: others are likely alike, and reading them all is in vain.
local function begins_plain()
  local runs = redis.call('HGET', runs_key, ARGV[fixed_args + 3]) or ''
  local _, to = find(runs, ' ' .. ARGV[fixed_args + 4] .. ':', 1, true)
  local record = to and redis.call('HGET', jobs_key, match(runs, '^[^:]+', to + 1))
  return record and byte(record) == 0
end

-- Do the whole call; returns the version and how many tasks each ending took effect on, and nothing, with nothing written,
-- when the call is not of the plain form.
local function end_plain()
  if tonumber(counters[4]) == POOLS_LIMITED or #ARGV - fixed_args > LONG and not begins_plain() then return nil end
  local version, keys, machines = tonumber(counters[1]), machines_named()
  if not read_machines(keys, machines) then return nil end
  local ids, parts = take_runs(machines)
  if not ids then return nil end
  local jobs, list = read_jobs(ids)
  if not jobs then return nil end
  local counts, touched, n, at_block = { 'ok', version }, {}, 0, fixed_args + 1
  while ARGV[at_block] do
    local how, reason = match(ARGV[at_block], '^(%S+) %S+ %S+( .*)$')
    local last_at = at_block + 2 * ARGV[at_block + 1]
    for at = at_block + 2, last_at, 2 do
      n = n + 1
      local id, count = ids[n], 0
      if id then
        local key, placement, part = ARGV[at], ARGV[at + 1], parts[n]
        local m = machines[key]
        count = end_run(jobs[id], m, ',' .. placement .. '@' .. key .. ',', part, how)
        if not count then return nil end
        if m[M_OWN] == 0 then touched[#touched + 1], m[M_OWN], m[M_NUMBER] = key, 1, m[M_NUMBER] + 1 end
        lines[#lines + 1] = how .. ' ' .. placement .. ' ' .. key .. ' ' .. id .. ' 0 ' .. part
          .. format(VALUES, m[M_NUMBER], unpack(m, M_USED + 1, M_USED + R)) .. reason
      end
      counts[n + 2] = count
    end
    at_block = last_at + 2
  end
  if #list == 0 then return counts end
  local rows, names, done = {}, {}, {}
  for i = 1, #list do
    local id = list[i]
    local j = jobs[id]
    rows[2 * i - 1] = id
    local record, ended = close(id, j)
    rows[2 * i] = record
    if ended then
      if j[J_LANE][L_LIVE] == 0 then return nil end  -- the lane is forgotten
      local n, name = #done + 1, j[J_NAME]
      done[n], names[n] = id, sub(record, name + 1, name + byte(record, name))
    end
  end
  local known
  for i = 1, #touched do
    local executor = machines[touched[i]][M_EXECUTOR]
    if executor ~= known and not named[format('box:%d', executor)] then return nil end
    known = executor
  end
  version = version + 1
  counts[2] = version
  redis.call('HDEL', meta_key, '-')
  write(machines, touched, rows, version, tonumber(counters[2]) or 0, by,
    { 'transactions', format('%d', (tonumber(counters[3]) or 0) + 1) })
  local asleep = named.asleep and redis.call('HKEYS', named.asleep) or {}
  for i = 1, #asleep do
    local key = named['wake:' .. asleep[i]]
    if key and redis.call('LLEN', key) == 0 then redis.call('RPUSH', key, '1') end
  end
  if #done > 0 then retire(names, done, version, tonumber(counters[5]) or 0) end
  return counts
end
