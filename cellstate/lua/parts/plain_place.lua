-- Transactions of the plain form (parts/plain.lua): validated and applied as in commit.lua, whose rest is the specification.
-- What is neither placed nor full nor moved is left to the rest, too.

do
  local byte, char = string.byte, string.char
  local M_USED, VALUES = M_CAPACITY + R, ' %d' .. AMOUNTS
  local L_HELD, L_TASKS, L_RUNNING = L_WANTED + R, L_WANTED + 2 * R + 2, L_WANTED + 2 * R + 3
  local machines, touched, jobs, placements, placed_jobs, lines = nil, {}, {}, meta.placements, 0, {}

  -- Where each transaction begins in ARGV, its job, and the machines of all; nil when one evicts, or a job has two.
  local function read_call()
    local starts, ids, keys, known, n, count = {}, {}, {}, {}, 0, 0
    local i = fixed_args + 1
    local id = ARGV[i]
    while id do
      if ARGV[i + 2] ~= '' or known[id] then return nil end
      local last = i + 2 + (#ARGV[i + 1] - 16) / 24
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
    return starts, ids, keys
  end

  -- Validate the claims of a transaction in order. Returns how many tasks each places and the verdicts of those that do not
  -- place all, if any; nothing when a claim is refused for another reason.
  local function judge(at, numbers, claims, unplaced, commands, need)
    local coarse, counts, verdicts = numbers[2] == 1, {}, nil
    for i = 1, claims do
      local m, count = machines[ARGV[at + 2 + i]], numbers[3 * i + 1]
      if numbers[3 * i] ~= 0 or count > unplaced or count < 1 or m[M_STATE] ~= UP then return nil end
      if commands == 1 and m[M_EXECUTOR] % 2 == 1 then return nil end
      local fits, verdict = count, FULL
      for d = 1, R do
        local free, amount = m[M_CAPACITY + d] - m[M_USED + d], need[d]
        if free < 0 then return nil end
        if free < amount * fits then fits = floor(free / amount) end
      end
      if coarse and (has_diverged() or numbers[3 * i + 2] + m[M_OWN] ~= m[M_NUMBER]) then fits, verdict = 0, MOVED end
      if fits < count then
        verdicts = verdicts or {}
        verdicts[i] = verdict
      end
      for d = 1, R do m[M_USED + d] = m[M_USED + d] + need[d] * fits end
      counts[i], unplaced = fits, unplaced - fits
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
        facts[#facts + 1] = format('conflict %s %s %d %d', id, key, verdict, numbers[3 * i + 1] - n)
      end
      words[i] = format('%d %d', n, verdict or PLACED_OK)
    end
    return concat(words, ',')
  end

  -- The first and the last of the waiting tasks when they are one range; nil else.
  local function range_of(waiting)
    local first, last = match(waiting, '^(%d+)%-(%d+)$')
    if first then return tonumber(first), tonumber(last) end
    first = match(waiting, '^%d+$')
    return tonumber(first), tonumber(first)
  end

  -- Send the placements of a job on machines of one executor, and log them.
  local function send(id, duration, hold, executor, items, values)
    facts[#facts + 1] = 'places ' .. id .. ' 0' .. concat(values)
    local mailbox = mailboxes[executor]
    if not mailbox then
      mailbox = {}
      mailboxes[executor] = mailbox
    end
    mailbox[#mailbox + 1] = '+ ' .. id .. ' 0 ' .. duration .. ' ' .. hold .. concat(items)
  end

  -- Place what stands of a transaction: so many tasks for each claim. Returns the runs and the waiting tasks afterwards.
  local function apply(id, at, stamp, claims, counts, unplaced, waiting, duration)
    local items, values, runs, n, first, last = {}, {}, {}, 0, nil, nil
    local hold, executor = nil, nil
    for i = 1, claims do
      local count = counts[i]
      if count > 0 then
        local key, tasks = ARGV[at + 2 + i], waiting
        local m = machines[key]
        if count < unplaced then
          if not first then first, last = range_of(waiting) end
          if not first then return nil end
          tasks = count == 1 and format('%d', first) or format('%d-%d', first, first + count - 1)
          first = first + count
          waiting = first == last and format('%d', first) or false
        else
          if first then tasks = count == 1 and format('%d', first) or format('%d-%d', first, last) end
          waiting = '-'
        end
        unplaced, placements = unplaced - count, placements + 1
        if m[M_STAMP] ~= stamp then
          if m[M_OWN] == 0 then touched[#touched + 1] = key end
          m[M_STAMP], m[M_OWN], m[M_NUMBER] = stamp, m[M_OWN] + 1, m[M_NUMBER] + 1
        end
        if m[M_HOLD] ~= hold or m[M_EXECUTOR] ~= executor then
          if n > 0 then
            send(id, duration, hold, executor, items, values)
            items, values, n = {}, {}, 0
          end
          hold, executor = m[M_HOLD], m[M_EXECUTOR]
        end
        local placement = format('%d', placements)
        local item = ' ' .. placement .. ' ' .. key .. ' ' .. tasks
        n = n + 1
        items[n], values[n] = item, item .. format(VALUES, m[M_NUMBER], unpack(m, M_USED + 1, M_USED + R))
        m[M_RUNS] = m[M_RUNS] .. ' ' .. placement .. ':' .. id .. ':0:' .. tasks
        runs[#runs + 1] = placement .. '@' .. key
      end
    end
    if n > 0 then send(id, duration, hold, executor, items, values) end
    if not waiting then waiting = format('%d-%d', first, last) end
    return concat(runs, ',') .. ',', waiting
  end

  -- Decide a transaction; returns its outcome, and nothing when it is not of the plain form.
  local function decide(t, id, record, at)
    if not record then return nil end
    local form, state, _, commands, leaving, size, more = byte(record, 1, 7)
    local a, b, c, d, gang = byte(record, LINKS_AT, LINKS_AT + 4)
    if form + state + leaving + more + a + b + c + d ~= 0 or size ~= 1 then return nil end
    local name = LANE_AT + 1 + byte(record, LANE_AT)
    local kind = name + 1 + byte(record, name)
    local group = kind + 1 + byte(record, kind)
    group = group + 1 + byte(record, group)
    local _, _, unplaced, placed, finished, failed, stopped, delayed, low, high, optional, wide, more_wide =
      byte(record, group + COUNTS_AT, group + COUNTS_AT + 12)
    local at_runs = group + WAITING_AT + 4 + wide
    local a_runs, b_runs, c_runs = byte(record, at_runs, at_runs + 2)
    local at_rest = at_runs + 4 + a_runs + 256 * b_runs
    if more_wide + c_runs + delayed ~= 0 or at_rest + 3 + 4 * R ~= #record then return nil end
    local l = plain.lane(sub(record, LANE_AT + 1, name - 1), sub(record, kind + 1, kind + byte(record, kind)))
    if not l then return nil end
    local numbers, claims, need = unpack_list(ARGV[at + 1]), (#ARGV[at + 1] - 16) / 24, plain.need(sub(record, at_rest + 4))
    if gang > 0 then
      local sum = 0
      for i = 1, claims do sum = sum + numbers[3 * i + 1] end
      if numbers[1] ~= 1 or sum < unplaced and optional == 0 then return nil end
    end
    local counts, verdicts = judge(at, numbers, claims, unplaced, commands, need)
    if not counts then return nil end
    local outcome = verdicts and refuse(id, at, numbers, claims, counts, verdicts, need) or '+'
    local count = 0
    for i = 1, claims do count = count + counts[i] end
    if count == 0 then return outcome end
    local waiting = sub(record, group + WAITING_AT + 4, at_runs - 1)
    local runs, rest = apply(id, at, t, claims, counts, unplaced, waiting, plain.duration(sub(record, group, group + 3)))
    if not runs then return nil end
    runs = sub(record, at_runs + 4, at_rest - 1) .. runs
    if #runs > 65535 then return nil end
    placed_jobs = placed_jobs + 1
    jobs[2 * placed_jobs - 1] = id
    jobs[2 * placed_jobs] = sub(record, 1, group + COUNTS_AT + 1)
      .. char(unplaced - count, placed + count, finished, failed, stopped, 0, low, high, optional, #rest, 0, 0, 0) .. rest
      .. char(#runs % 256, floor(#runs / 256), 0, 0) .. runs .. sub(record, at_rest)
    lines[placed_jobs] = sub(record, name + 1, kind - 1)
    local k = l[L_KIND]
    plain.change(l)
    for r = 1, R do
      local amount = need[r]
      local used = amount * count
      k[K_USED + r], l[L_HELD + r] = k[K_USED + r] + used, l[L_HELD + r] + used
      l[L_WANTED + r] = l[L_WANTED + r] + math.min(MOST_WANTED, amount * (unplaced - count)) - math.min(MOST_WANTED, amount * unplaced)
    end
    l[L_TASKS] = l[L_TASKS] + count
    if placed == 0 then k[K_JOBS], l[L_RUNNING] = k[K_JOBS] + 1, l[L_RUNNING] + 1 end
    if count == unplaced then
      l[L_PENDING] = l[L_PENDING] - 1
      local gone = k[K_GONE]
      gone[#gone + 1] = sub(record, LINKS_AT + 5, LINKS_AT + 6) .. id
    end
    return outcome
  end

  -- Schedulers whose blocked jobs wait for a placement of this call; freed room is none of its matters.
  local function notify_waiting()
    local asleep = named.asleep and placed_jobs > 0 and redis.call('HGETALL', named.asleep) or {}
    for i = 1, #asleep, 2 do
      local key, names = named['wake:' .. asleep[i]], ' ' .. asleep[i + 1] .. ' '
      local awaited = find(names, ' * ', 1, true)
      for k = 1, awaited and 0 or placed_jobs do awaited = awaited or find(names, ' ' .. lines[k] .. ' ', 1, true) end
      if key and awaited then wake(key) end
    end
  end

  -- Do the whole call; returns the outcomes, and nothing, with nothing written, when it is not of the plain form.
  function plain.place()
    if meta.pools == POOLS_LIMITED then return nil end
    machines = {}
    local starts, ids, keys = read_call()
    if not starts then return nil end
    local records = fetch(jobs_key, ids)
    machines = plain.machines(keys)
    if not machines then return nil end
    for i = 1, #keys do
      if not named['box:' .. format('%d', machines[keys[i]][M_EXECUTOR])] then return nil end
    end
    local outcomes = {}
    for t = 1, #starts do
      local outcome = decide(t, ids[t], records[t], starts[t])
      if not outcome then return nil end
      outcomes[t] = outcome
    end
    plain.found, meta.placements, meta.transactions = machines, placements, meta.transactions + placed_jobs
    local rows = plain.write(touched, jobs)
    notify_waiting()
    write_mailboxes()
    announce(rows, at, member)
    return concat(outcomes, ';')
  end
end
