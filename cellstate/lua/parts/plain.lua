-- The plain form of a call, in straight lines: jobs of one group of at most 255 tasks, none of them delayed, leaving or kept
-- apart, which nothing waits for, in lanes and kinds without limits. Their records are read and patched in place: byte by
-- byte they are as the tables of cellstate/schema.py say for form 0. A call in which anything is otherwise is left to the
-- rest of its script, before the first write. All that this part makes is made anew for each call, so it has few functions.

-- Where the words of these tables are. A machine: text of its runs, "1" when tasks are leaving it, the transaction that
-- touched it last, how often this call raised its number; then those of its record.
--@const M_RUNS 1, M_HOLD 2, M_STAMP 3, M_OWN 4, M_ROW 4, M_NUMBER 6, M_STATE 7, M_EXECUTOR 8, M_CAPACITY 8
-- A lane: its kind, number, name, whether it changed; then those of its record.
--@const L_KIND 1, L_NUMBER 2, L_NAME 3, L_CHANGED 4, L_ROW 4, L_PENDING 7, L_WANTED 8
-- A kind: whether it changed, jobs with placed tasks, members of its queue to remove, key of its queue; then amounts in use.
--@const K_CHANGED 1, K_JOBS 2, K_GONE 3, K_QUEUE 4, K_USED 4
local M_USED, L_HELD, L_LIVE = M_CAPACITY + R, L_WANTED + R, L_WANTED + 2 * R + 1
local VALUES, NEEDS = ' %d' .. AMOUNTS, '<' .. string.rep('I4', R)
local lines, kinds, lanes_of, changed_lanes, needs_of = {}, {}, {}, {}, {}

-- Read machines of a list into a table; false when one is not there.
local function read_machines(list, found)
  local rows, texts = fetch(machines_key, list), fetch(runs_key, list)
  for i = 1, #list do
    local row, runs = rows[i], texts[i] or ''
    if not row then return false end
    found[list[i]] = { runs, find(runs, '!', 1, true) and '1' or '0', 0, 0, unpack_numbers(MACHINE, row) }
  end
  return true
end

-- The lane of a job; false when it is not of the plain form: its kind has limits, or the queue of that was not given.
local function read_lane(number, kind)
  local row, k, unlimited = redis.call('HGET', lanes_key, number), kinds[kind], '- - -' .. string.rep(' -', R)
  if k == nil then
    local text, queue = redis.call('HGET', kinds_key, kind), named['pending:' .. kind]
    local free = not text or sub(text, 1, #unlimited + 1) == unlimited .. ' '
    k = queue and free and { false, 0, {}, queue }
    for d = 1, k and R or 0 do k[K_USED + d] = 0 end
    local word = K_JOBS
    for amount in gmatch(k and text and sub(text, #unlimited + 2) or '', '%d+') do
      k[word], word = tonumber(amount), word == K_JOBS and K_USED + 1 or word + 1
    end
    kinds[kind] = k
  end
  local l = row and k and { k, number, sub(row, 8 * (7 + 2 * R) + 1), false,
    unpack_numbers('<' .. string.rep('i8', 7 + 2 * R), row) } or false
  lanes_of[number] = l
  return l
end

-- Write machines, jobs, lanes, kinds and their queues; then the entries of the change list and the log. changed: more
-- counters of the cell, after their names; behind it further fields of the log's entry, likewise.
local function write(machines, touched, jobs, version, low, by, changed, ...)
  local rows, texts, records, n = {}, {}, {}, #touched
  for i = 1, n do
    local key = touched[i]
    local m = machines[key]
    local record = pack_numbers(MACHINE, unpack(m, M_ROW + 1, M_ROW + 4 + 2 * R))
    records[i], rows[2 * i - 1], rows[2 * i], texts[2 * i - 1], texts[2 * i] = record, key, record, key, m[M_RUNS]
  end
  in_chunks('HSET', machines_key, rows)
  in_chunks('HSET', runs_key, texts)
  in_chunks('HSET', jobs_key, jobs)
  for name, k in pairs(kinds) do
    if k and k[K_CHANGED] then
      local used = format(' %d' .. AMOUNTS, k[K_JOBS], unpack(k, K_USED + 1, K_USED + R))
      redis.call('HSET', kinds_key, name, '- - -' .. string.rep(' -', R) .. used)
      in_chunks('ZREM', k[K_QUEUE], k[K_GONE])
    end
  end
  rows = {}
  for i = 1, #changed_lanes do
    local l = changed_lanes[i]
    local record = pack_numbers('<' .. string.rep('i8', 7 + 2 * R), unpack(l, L_ROW + 1, L_ROW + 7 + 2 * R))
    records[n + i], rows[2 * i - 1], rows[2 * i] = sub(record, 1, 8 * (4 + 2 * R)), l[L_NUMBER], record .. l[L_NAME]
  end
  in_chunks('HSET', lanes_key, rows)
  redis.call('RPUSH', changes_key, tag .. concat(records))
  local number = format('%d', version)
  redis.call('XADD', log_key, 'MAXLEN', '~', LOG_KEPT, number .. '-0', 'at', at, 'by', by,
    'facts', concat(lines, '\n'), ...)
  if version % TRIM_EVERY == 0 then
    --@include trim
    changed[#changed + 1], changed[#changed + 2] = 'floor', format('%d', low)
  end
  redis.call('HSET', meta_key, 'version', number, unpack(changed))
  return low
end
