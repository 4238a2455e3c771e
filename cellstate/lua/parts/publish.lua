-- The state of the cell's counters, what this call announces, and its writes.
-- Every call that changes anything raises the cell's version by one and leaves, under that version,
-- one entry in the change list (its tag, then the touched machines' records) and one in the log.

local META = { 'version', 'floor', 'placements', 'arrivals', 'transactions', 'jobs', 'keep_jobs', 'keep_ms' }
local meta = {}
do
  local values = redis.call('HMGET', meta_key, unpack(META))
  for i, name in ipairs(META) do meta[name] = tonumber(values[i]) or 0 end
end

-- Keys beyond the fixed ones, by what follows the cell's tag: pending:KIND, box:EXECUTOR, wake:MEMBER.
local named = {}
for i = fixed_keys + 1, #KEYS do named[match(KEYS[i], '}:(.*)$')] = KEYS[i] end

local facts, boxes, pend, unpend, retired = {}, {}, {}, {}, {}
local CHANGES_KEPT, LOG_KEPT, BOX_MOST = 8192, 50000, 200000

-- What this call would write but was not given: reported before anything is judged, so that the
-- caller sends it again with those keys. Checked first, because nothing is rolled back (semantics 12).
local function lacking()
  local names, seen = {}, {}
  local function want(name)
    if not named[name] and not seen[name] then
      seen[name] = true
      names[#names + 1] = name
    end
  end
  for _, j in pairs(J) do
    if j then want('pending:' .. j.kind) end
  end
  local executors = {}
  for _, m in pairs(M) do
    if m and not executors[m[4]] then
      executors[m[4]] = true
      want('box:' .. m[4])
    end
  end
  table.sort(names)
  return names
end

local function box_of(executor)
  local box = boxes[executor]
  if not box then
    box = {}
    boxes[executor] = box
  end
  return box
end

-- Placements of one group that follow one another share a line of the log, "places job group (placement
-- machine tasks number amount*R)…", and a message, "+ job group duration hold (placement machine tasks)…".
local open = false

local function close()
  if not open then return end
  local o = open
  open = false
  facts[#facts + 1] = 'places ' .. o.job.id .. ' ' .. o.group .. ' ' .. concat(o.facts, ' ')
  local box = box_of(o.executor)
  box[#box + 1] = '+ ' .. o.job.id .. ' ' .. o.group .. ' ' .. o.duration .. ' ' .. o.hold .. ' ' .. concat(o.items, ' ')
end

local function fact(line)
  close()
  facts[#facts + 1] = line
end

local function message(m, line)
  close()
  local box = box_of(m[4])
  box[#box + 1] = line
end

-- A machine's number rises by one per transaction that changes it (invariant 3); own: how often this
-- call raised it.
local function touch(m, transaction)
  if m.transaction ~= transaction then
    m.transaction = transaction
    m.own = m.own + 1
    m.number = m.number + 1
    m[2] = '' .. m.number
  end
  if not m.touched then
    m.touched = true
    touched[#touched + 1] = m
  end
end

local function touch_job(j)
  if not j.touched then
    j.touched = true
    changed_jobs[#changed_jobs + 1] = j
  end
end

-- The allocated amounts as text, made once until they change (occupy).
local function amounts(m)
  local text = m.amounts
  if not text then
    text = concat(m, ' ', USED + 1, USED + R)
    m.amounts = text
  end
  return text
end

-- Number and amounts of a machine after the change, for facts.
local function values(m) return m[2] .. ' ' .. amounts(m) end

local function announce_place(j, group, duration, hold, m, placement, tasks)
  local o = open
  if not o or o.job ~= j or o.group ~= group or o.hold ~= hold or o.executor ~= m[4] then
    close()
    o = { job = j, group = group, duration = duration, hold = hold, executor = m[4], items = {}, facts = {} }
    open = o
  end
  local item, n = placement .. ' ' .. m[1] .. ' ' .. tasks, #o.items + 1
  o.items[n] = item
  o.facts[n] = item .. ' ' .. m[2] .. ' ' .. amounts(m)
end

local function write_machines()
  local rows, texts, records = {}, {}, {}
  for i, m in ipairs(touched) do
    local record = concat(m, ' ', 1, USED) .. ' ' .. amounts(m)
    records[i] = record
    rows[2 * i - 1], rows[2 * i] = m[1], record
    texts[2 * i - 1], texts[2 * i] = m[1], m.runs
  end
  store(machines_key, rows)
  store(runs_key, texts)
  return concat(records, ' ')
end

local function write_jobs()
  local rows = {}
  for _, j in ipairs(changed_jobs) do
    local pending = j.unplaced > 0 and j.state <= HELD
    if j.unplaced == 0 and j.placed == 0 and not j.was_complete then
      if j.state <= HELD then j.state = DONE end
      retired[#retired + 1] = j
      fact('done ' .. j.id .. ' ' .. j.state)
    end
    if pending and (j.returned or not j.was_pending) then
      pend[#pend + 1] = j
    elseif j.was_pending and not pending then
      unpend[#unpend + 1] = j
    end
    rows[#rows + 1] = j.id
    rows[#rows + 1] = write_job(j)
  end
  store(jobs_key, rows)
end

local function write_kinds()
  local rows = {}
  for name, k in pairs(K) do
    if k.changed then
      rows[#rows + 1] = name
      rows[#rows + 1] = write_kind(k)
    end
  end
  store(kinds_key, rows)
end

local function write_pending()
  local by_kind = {}
  for _, j in ipairs(unpend) do
    local list = by_kind[j.kind] or {}
    by_kind[j.kind] = list
    list[#list + 1] = j.bucket .. j.id
  end
  for kind, list in pairs(by_kind) do
    for from = 1, #list, 4000 do
      redis.call('ZREM', named['pending:' .. kind], unpack(list, from, math.min(from + 3999, #list)))
    end
  end
  local woken = {}
  for _, j in ipairs(pend) do
    meta.arrivals = meta.arrivals + 1
    redis.call('ZADD', named['pending:' .. j.kind], meta.arrivals, j.bucket .. j.id)
    woken[j.kind] = true
  end
  -- One token at most until it is consumed (semantics 19).
  for name, key in pairs(named) do
    local kind = match(name, '^wake:([^/]+)/')
    if kind and woken[kind] and redis.call('LLEN', key) == 0 then redis.call('RPUSH', key, '1') end
  end
end

local function write_boxes()
  for executor, lines in pairs(boxes) do
    local key, length = named['box:' .. executor], 0
    for from = 1, #lines, 4000 do
      length = redis.call('RPUSH', key, unpack(lines, from, math.min(from + 3999, #lines)))
    end
    -- Nobody reads it: keep a mark that tells its executor to read everything afresh.
    if length > BOX_MOST then
      redis.call('DEL', key)
      redis.call('RPUSH', key, '!')
    end
  end
end

-- Finished jobs are kept by count and by age, trimmed a few per call (semantics 21). One whose tasks
-- are still leaving goes to the back: what is placed in their room needs its amounts (2).
local function retire(at)
  if #retired == 0 then return end
  for _, j in ipairs(retired) do
    redis.call('HDEL', jobnames_key, j.name)
    redis.call('RPUSH', done_key, j.id .. ' ' .. at)
  end
  local kept = redis.call('LLEN', done_key)
  for _ = 1, #retired + 4 do
    local oldest = redis.call('LINDEX', done_key, 0)
    if not oldest then return end
    local id, since = match(oldest, '^(%S+) (%d+)$')
    if kept <= meta.keep_jobs and tonumber(since) + meta.keep_ms > tonumber(at) then return end
    redis.call('LPOP', done_key)
    if find(redis.call('HGET', jobs_key, id) or '', '!', 1, true) then
      redis.call('RPUSH', done_key, oldest)
    else
      redis.call('HDEL', jobs_key, id)
      redis.call('HDEL', specs_key, id)
      kept = kept - 1
    end
  end
end

-- Announce the touched machines and the facts under the next version.
local function announce(records, at, by)
  meta.version = meta.version + 1
  redis.call('RPUSH', changes_key, tag .. records)
  if meta.version - meta.floor > 2 * CHANGES_KEPT then
    redis.call('LTRIM', changes_key, -CHANGES_KEPT, -1)
    meta.floor = meta.version - CHANGES_KEPT
  end
  redis.call('XADD', log_key, 'MAXLEN', '~', LOG_KEPT, string.format('%.0f-0', meta.version),
    'at', at, 'by', by, 'facts', concat(facts, '\n'))
  redis.call('HSET', meta_key, 'version', meta.version, 'floor', meta.floor, 'placements', meta.placements,
    'arrivals', meta.arrivals, 'transactions', meta.transactions, 'jobs', meta.jobs)
end

-- Write everything. A call that frees begins with a deletion, which a full server lets pass; a call
-- that grows begins with HSET, which it refuses before anything is written (semantics 13).
local function publish(at, by, frees)
  if frees then redis.call('HDEL', meta_key, '-') end
  local records = write_machines()
  close()
  write_jobs()
  write_kinds()
  write_pending()
  write_boxes()
  retire(at)
  announce(records, at, by)
end
