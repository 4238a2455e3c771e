-- The plain form of a call, in straight lines: jobs of one group of at most 255 tasks, none of them delayed, leaving or kept
-- apart, which nothing waits for, in lanes and kinds without limits. Their records are read and patched in place: byte by
-- byte they are as the tables of cellstate/schema.py say for form 0. A call in which anything is otherwise is left to the
-- rest of its script, before the first write; each of these functions then returns nothing.

-- Where the words of these tables are. A machine: text of its runs, "1" when tasks are leaving it, the transaction that
-- touched it last, how often this call raised its number; then those of its record.
--@const M_RUNS 1, M_HOLD 2, M_STAMP 3, M_OWN 4, M_ROW 4, M_NUMBER 6, M_STATE 7, M_EXECUTOR 8, M_CAPACITY 8
-- A lane: its kind, number, name, whether it changed; then those of its record.
--@const L_KIND 1, L_NUMBER 2, L_NAME 3, L_CHANGED 4, L_ROW 4, L_PENDING 7, L_WANTED 8
-- A kind: whether it changed, jobs with placed tasks, members of its queue to remove, key of its queue; then amounts in use.
--@const K_CHANGED 1, K_JOBS 2, K_GONE 3, K_QUEUE 4, K_USED 4

local plain = {}
do
  local USES, ROW_BYTES, LANE_BYTES = ' (%d+)', 8 * (4 + 2 * R), 8 * (7 + 2 * R)
  local LANE, NEEDS = '<' .. string.rep('i8', 7 + 2 * R), '<' .. string.rep('I4', R)
  local UNLIMITED = '- - -' .. string.rep(' -', R)
  local KIND = '^' .. string.gsub(UNLIMITED, '-', '%%-') .. USES .. string.rep(USES, R) .. '$'
  local kinds, lanes_of, needs_of, durations = {}, {}, {}, {}
  plain.lanes = {}  -- those that changed, in that order

  -- Machines by index; nil when one is not there.
  function plain.machines(list)
    local rows, texts, found = fetch(machines_key, list), fetch(runs_key, list), {}
    for i = 1, #list do
      local row, runs = rows[i], texts[i] or ''
      if not row then return nil end
      found[list[i]] = { runs, find(runs, '!', 1, true) and '1' or '0', 0, 0, unpack_numbers(MACHINE, row) }
    end
    return found
  end

  -- A kind without limits whose queue was given; else false.
  local function kind_of(name)
    local k = kinds[name]
    if k == nil then
      local text, queue = redis.call('HGET', kinds_key, name), named['pending:' .. name]
      local words = { match(text or UNLIMITED .. string.rep(' 0', 1 + R), KIND) }
      k = queue and words[1] and { false, tonumber(words[1]), {}, queue }
      if k then
        for d = 1, R do k[K_USED + d] = tonumber(words[1 + d]) end
      end
      kinds[name] = k or false
    end
    return k
  end

  -- The lane of a job; false when it is not of the plain form.
  function plain.lane(number, kind)
    local l = lanes_of[number]
    if l == nil then
      local row, k = redis.call('HGET', lanes_key, number), kind_of(kind)
      l = row and k and { k, number, sub(row, LANE_BYTES + 1), false, unpack_numbers(LANE, row) } or false
      lanes_of[number] = l
    end
    return l
  end

  -- Note that a lane and its kind change.
  function plain.change(l)
    if not l[L_CHANGED] then
      plain.lanes[#plain.lanes + 1], l[L_CHANGED], l[L_KIND][K_CHANGED] = l, true, true
    end
  end

  -- The amounts that a task needs, from the end of its job's record.
  function plain.need(bytes)
    local need = needs_of[bytes]
    if not need then
      need = { unpack_numbers(NEEDS, bytes) }
      needs_of[bytes] = need
    end
    return need
  end

  -- The expected duration of a task as text.
  function plain.duration(bytes)
    local text = durations[bytes]
    if not text then
      text = format('%d', (unpack_numbers('<I4', bytes)))
      durations[bytes] = text
    end
    return text
  end

  -- Write machines, jobs, kinds, the queue and messages; the rows of machines and lanes go to the change list.
  function plain.write(touched, jobs)
    local rows, texts, records, n = {}, {}, {}, #touched
    for i = 1, n do
      local key = touched[i]
      local m = plain.found[key]
      local record = pack_numbers(MACHINE, unpack(m, M_ROW + 1, M_ROW + 4 + 2 * R))
      records[i], rows[2 * i - 1], rows[2 * i], texts[2 * i - 1], texts[2 * i] = record, key, record, key, m[M_RUNS]
    end
    store(machines_key, rows)
    store(runs_key, texts)
    store(jobs_key, jobs)
    for name, k in pairs(kinds) do
      if k and k[K_CHANGED] then
        redis.call('HSET', kinds_key, name, UNLIMITED .. format(' %d' .. AMOUNTS, k[K_JOBS], unpack(k, K_USED + 1, K_USED + R)))
        in_chunks('ZREM', k[K_QUEUE], k[K_GONE])
      end
    end
    rows = {}
    for i = 1, #plain.lanes do
      local l = plain.lanes[i]
      local record = pack_numbers(LANE, unpack(l, L_ROW + 1, L_ROW + 7 + 2 * R))
      records[n + i], rows[2 * i - 1], rows[2 * i] = sub(record, 1, ROW_BYTES), l[L_NUMBER], record .. l[L_NAME]
    end
    store(lanes_key, rows)
    return concat(records)
  end
end
