-- Transactions of the plain form (parts/plain.lua): validated and applied as in commit.lua, whose rest is the specification.
-- What is neither placed nor full nor moved is left to the rest, too.

local machines, touched, jobs, names, mailboxes, durations = {}, {}, {}, {}, {}, {}
local placed_jobs, placements, version = 0, tonumber(counters[4]) or 0, tonumber(counters[1]) + 1

-- Validate the claims of a transaction in order. Returns how many tasks each places and the verdicts of those that do not
-- place all; the first nil when all stand, nothing when a claim is refused for another reason.
local function validate(at, numbers, claims, unplaced, commands, need)
  local coarse, counts, verdicts = numbers[2] == 1, nil, nil
  for i = 1, claims do
    local m, count = machines[ARGV[at + 2 + i]], numbers[3 * i + 1]
    local fits, verdict = count, FULL
    if numbers[3 * i] ~= 0 or count > unplaced or count < 1 or m[M_STATE] ~= UP then return false end
    if commands == 1 and m[M_EXECUTOR] % 2 == 1 then return false end
    for d = 1, R do
      local free, amount = m[M_CAPACITY + d] - m[M_USED + d], need[d]
      if free < 0 then return false end
      if free < amount * fits then fits = floor(free / amount) end
    end
    if coarse and (has_diverged() or numbers[3 * i + 2] + m[M_OWN] ~= m[M_NUMBER]) then fits, verdict = 0, MOVED end
    if fits < count then
      if not counts then
        counts, verdicts = {}, {}
        for k = 1, i - 1 do counts[k] = numbers[3 * k + 1] end
      end
      verdicts[i] = verdict
    end
    for d = 1, R do m[M_USED + d] = m[M_USED + d] + need[d] * fits end
    if counts then counts[i] = fits end
    unplaced = unplaced - fits
  end
  return counts, verdicts
end

-- Log what conflicts; returns the outcome. A gang that fails places nothing.
local function refuse(id, at, numbers, claims, counts, verdicts, need)
  local words = {}
  for i = 1, claims do
    local key, n, verdict = ARGV[at + 2 + i], counts[i], verdicts[i]
    if numbers[1] == 1 then
      local m = machines[key]
      for d = 1, R do m[M_USED + d] = m[M_USED + d] - need[d] * n end
      counts[i], n, verdict = 0, 0, verdict or ABORTED
    end
    if verdict == MOVED or verdict == FULL then
      lines[#lines + 1] = format('conflict %s %s %d %d', id, key, verdict, numbers[3 * i + 1] - n)
    end
    words[i] = format('%d %d', n, verdict or PLACED_OK)
  end
  return concat(words, ',')
end

-- Placements that follow one another on machines of one executor share a line of the log and a message.
local function send(id, duration, hold, executor, items, values)
  lines[#lines + 1] = 'places ' .. id .. ' 0' .. concat(values)
  local mailbox = mailboxes[executor]
  mailbox[#mailbox + 1] = '+ ' .. id .. ' 0 ' .. duration .. ' ' .. hold .. concat(items)
end

-- Place what stands of a transaction: as many tasks for each claim as counts say, else as claimed. Returns the runs and the
-- waiting tasks afterwards, nothing when those are several ranges of which only some are placed.
local function apply(id, at, stamp, numbers, claims, counts, unplaced, waiting, duration)
  local items, values, runs, n, total, hold, executor, first, last = {}, {}, {}, 0, 0, nil, nil, nil, nil
  for i = 1, claims do
    local count, key = counts and counts[i] or numbers[3 * i + 1], ARGV[at + 2 + i]
    local m = machines[key]
    if count > 0 then
      if m[M_EXECUTOR] ~= executor or m[M_HOLD] ~= hold then
        if n > 0 then
          send(id, duration, hold, executor, items, values)
          items, values, n = {}, {}, 0
        end
        hold, executor = m[M_HOLD], m[M_EXECUTOR]
      end
      local tasks = waiting
      if count < unplaced or first then
        if not first then
          first, last = match(waiting, '^(%d+)%-(%d+)$')
          if not first then return nil end
          first, last = tonumber(first), tonumber(last)
        end
        tasks = first < 10 and char(48 + first) or first < 100 and char(48 + floor(first / 10), 48 + first % 10)
          or format('%d', first)
        if count > 1 then tasks = tasks .. format('-%d', first + count - 1) end
        first = first + count
      end
      unplaced, placements, n, total = unplaced - count, placements + 1, n + 1, total + 1
      if m[M_STAMP] ~= stamp then
        if m[M_OWN] == 0 then touched[#touched + 1] = key end
        m[M_STAMP], m[M_OWN], m[M_NUMBER] = stamp, m[M_OWN] + 1, m[M_NUMBER] + 1
      end
      local placement = format('%d', placements)
      local item = ' ' .. placement .. ' ' .. key .. ' ' .. tasks
      items[n], values[n] = item, item .. format(VALUES, m[M_NUMBER], unpack(m, M_USED + 1, M_USED + R))
      m[M_RUNS] = m[M_RUNS] .. ' ' .. placement .. ':' .. id .. ':0:' .. tasks
      runs[total] = placement .. '@' .. key
    end
  end
  send(id, duration, hold, executor, items, values)
  if unplaced == 0 then
    waiting = '-'
  elseif first then
    waiting = first == last and format('%d', first) or format('%d-%d', first, last)
  end
  return concat(runs, ',') .. ',', waiting
end

-- Place a job whose one claim takes all its waiting tasks; returns its run, and false when it does not fit, or coarse
-- detection is asked for.
local function apply_one(id, key, stamp, count, waiting, duration, need)
  local m = machines[key]
  for d = 1, R do
    if m[M_CAPACITY + d] - m[M_USED + d] < need[d] * count then return false end
  end
  for d = 1, R do m[M_USED + d] = m[M_USED + d] + need[d] * count end
  if m[M_OWN] == 0 then touched[#touched + 1] = key end
  m[M_STAMP], m[M_OWN], m[M_NUMBER], placements = stamp, m[M_OWN] + 1, m[M_NUMBER] + 1, placements + 1
  local placement, mailbox = format('%d', placements), mailboxes[m[M_EXECUTOR]]
  local item = placement .. ' ' .. key .. ' ' .. waiting
  lines[#lines + 1] = 'places ' .. id .. ' 0 ' .. item .. format(VALUES, m[M_NUMBER], unpack(m, M_USED + 1, M_USED + R))
  mailbox[#mailbox + 1] = '+ ' .. id .. ' 0 ' .. duration .. ' ' .. m[M_HOLD] .. ' ' .. item
  m[M_RUNS] = m[M_RUNS] .. ' ' .. placement .. ':' .. id .. ':0:' .. waiting
  return placement .. '@' .. key .. ','
end

-- Decide a transaction; returns its outcome, and nothing when it is not of the plain form.
local function decide(t, id, record, at)
  local form, state, _, commands, leaving, size, more = byte(record, 1, 7)
  local a, b, c, d, gang = byte(record, LINKS_AT, LINKS_AT + 4)
  if form + state + leaving + more + a + b + c + d ~= 0 or size ~= 1 then return nil end
  local name = LANE_AT + 1 + byte(record, LANE_AT)
  local kind = name + 1 + byte(record, name)
  local group = kind + 1 + byte(record, kind)
  local lane = sub(record, LANE_AT + 1, name - 1)
  local l = lanes_of[lane]
  if l == nil then l = read_lane(lane, sub(record, kind + 1, group - 1)) end
  group = group + 1 + byte(record, group)
  local _, _, unplaced, placed, finished, failed, stopped, delayed, low, high, optional, wide, more_wide =
    byte(record, group + COUNTS_AT, group + COUNTS_AT + 12)
  local at_runs = group + WAITING_AT + 4 + wide
  local a_runs, b_runs, c_runs = byte(record, at_runs, at_runs + 2)
  local at_rest = at_runs + 4 + a_runs + 256 * b_runs
  if not l or more_wide + c_runs + delayed ~= 0 or at_rest + 3 + 4 * R ~= #record then return nil end
  local bytes = sub(record, at_rest + 4)
  local need, blob = needs_of[bytes], ARGV[at + 1]
  if not need then
    need = { unpack_numbers(NEEDS, bytes) }
    needs_of[bytes] = need
  end
  bytes = sub(record, group, group + 3)
  local duration = durations[bytes]
  if not duration then
    duration = format('%d', (unpack_numbers('<I4', bytes)))
    durations[bytes] = duration
  end
  local waiting, outcome, count, runs, rest = sub(record, group + WAITING_AT + 4, at_runs - 1), '+', unplaced, false, '-'
  if #blob == 40 then
    local mode, detection, of, claimed = unpack_numbers('<i8i8i8i8', blob)
    local m = machines[ARGV[at + 3]]
    if of ~= 0 or m[M_STATE] ~= UP or gang > 0 and mode ~= 1 or commands == 1 and m[M_EXECUTOR] % 2 == 1 then return nil end
    if claimed == unplaced and count > 0 and detection == 0 then
      runs = apply_one(id, ARGV[at + 3], t, count, waiting, duration, need)
    end
  end
  if not runs then
    local numbers, claims = unpack_list(blob), (#blob - 16) / 24
    if gang > 0 then
      local sum = 0
      for i = 1, claims do sum = sum + numbers[3 * i + 1] end
      if numbers[1] ~= 1 or sum < unplaced and optional == 0 then return nil end
    end
    local counts, verdicts = validate(at, numbers, claims, unplaced, commands, need)
    if counts == false then return nil end
    if verdicts then outcome = refuse(id, at, numbers, claims, counts, verdicts, need) end
    count = 0
    for i = 1, claims do count = count + (counts and counts[i] or numbers[3 * i + 1]) end
    if count == 0 then return outcome end
    runs, rest = apply(id, at, t, numbers, claims, counts, unplaced, waiting, duration)
    if not runs then return nil end
  end
  runs = sub(record, at_runs + 4, at_rest - 1) .. runs
  if #runs > 65535 then return nil end
  local n, k = placed_jobs + 1, l[L_KIND]
  placed_jobs, jobs[2 * n - 1] = n, id
  if named.asleep then names[n] = sub(record, name + 1, kind - 1) end
  jobs[2 * n] = sub(record, 1, group + COUNTS_AT + 1)
    .. char(unplaced - count, placed + count, finished, failed, stopped, 0, low, high, optional, #rest, 0, 0, 0) .. rest
    .. char(#runs % 256, floor(#runs / 256), 0, 0) .. runs .. sub(record, at_rest)
  if not l[L_CHANGED] then changed_lanes[#changed_lanes + 1], l[L_CHANGED], k[K_CHANGED] = l, true, true end
  for r = 1, R do
    local amount = need[r]
    local used = amount * count
    k[K_USED + r], l[L_HELD + r] = k[K_USED + r] + used, l[L_HELD + r] + used
    l[L_WANTED + r] = l[L_WANTED + r] + math.min(MOST_WANTED, amount * (unplaced - count)) - math.min(MOST_WANTED, amount * unplaced)
  end
  l[L_LIVE + 1] = l[L_LIVE + 1] + count
  if placed == 0 then k[K_JOBS], l[L_LIVE + 2] = k[K_JOBS] + 1, l[L_LIVE + 2] + 1 end
  if count == unplaced then
    l[L_PENDING] = l[L_PENDING] - 1
    k[K_GONE][#k[K_GONE] + 1] = sub(record, LINKS_AT + 5, LINKS_AT + 6) .. id
  end
  return outcome
end

-- Schedulers whose blocked jobs wait for a placement of this call are notified, and executors are sent their messages.
local function notify()
  local asleep = named.asleep and placed_jobs > 0 and redis.call('HGETALL', named.asleep) or {}
  for i = 1, #asleep, 2 do
    local key, awaited = named['wake:' .. asleep[i]], ' ' .. asleep[i + 1] .. ' '
    local found = find(awaited, ' * ', 1, true)
    for k = 1, found and 0 or #names do found = found or find(awaited, ' ' .. names[k] .. ' ', 1, true) end
    if key and found and redis.call('LLEN', key) == 0 then redis.call('RPUSH', key, '1') end
  end
  for executor, messages in pairs(mailboxes) do
    local key = named[format('box:%d', executor)]
    -- As in parts/announce.lua: a mailbox that nobody reads keeps a mark alone.
    if #messages > 0 and redis.call('RPUSH', key, concat(messages, '\n')) > MAILBOX_MOST then
      redis.call('DEL', key)
      redis.call('RPUSH', key, format('! %d', version))
    end
  end
end

-- Do the whole call; returns the outcomes, and nothing, with nothing written, when it is not of the plain form. No claim may
-- evict, and no job may have two transactions.
local function place_plain()
  if tonumber(counters[6]) == POOLS_LIMITED then return nil end
  local starts, ids, keys, known, n, count, i = {}, {}, {}, {}, 0, 0, fixed_args + 1
  local id = ARGV[i]
  while id do
    if ARGV[i + 2] ~= '' or known[id] then return nil end
    local last = i + 2 + (#ARGV[i + 1] - 16) / 24
    if last > i + 257 then return nil end  -- its job has more tasks than a plain one
    n = n + 1
    starts[n], ids[n], known[id] = i, id, true
    for k = i + 3, last do
      local key = ARGV[k]
      if not machines[key] then
        count = count + 1
        keys[count], machines[key] = key, true
      end
    end
    i = last + 1
    id = ARGV[i]
  end
  local records = fetch(jobs_key, ids)
  for t = 1, n do
    if not records[t] or byte(records[t]) ~= 0 then return nil end
  end
  if not read_machines(keys, machines) then return nil end
  for k = 1, count do
    local executor = machines[keys[k]][M_EXECUTOR]
    if not mailboxes[executor] then
      if not named[format('box:%d', executor)] then return nil end
      mailboxes[executor] = {}
    end
  end
  local outcomes = {}
  for t = 1, n do
    local outcome = decide(t, ids[t], records[t], starts[t])
    if not outcome then return nil end
    outcomes[t] = outcome
  end
  local changed = { 'placements', format('%d', placements), 'transactions', format('%d', (tonumber(counters[5]) or 0) + placed_jobs) }
  local low = write(machines, touched, jobs, version, tonumber(counters[2]) or 0, member, placed_jobs > 0 and changed or {},
    'basis', basis)
  notify()
  return answer(concat(outcomes, ';'), version, low, counters[3])
end
