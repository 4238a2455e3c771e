-- The announcements and the writes of a call.
-- Every call that changes anything raises the cell's version by one and leaves, under that version,
-- one entry in the change list (its tag, then the touched machines' records) and one in the log.

pools.limited = meta.pools == POOLS_LIMITED
local pend, unpend, retired = {}, {}, {}
-- Members of the housekeeping set that this call adds, each after its score, and removes.
local chores, settled = {}, {}
-- Jobs that wait for others (links.lua): the waits that this call ends; more: jobs that it ended have further waiters.
local waiters = { met = {}, more = false }
-- Whether a machine was added or changed, and the lanes whose tasks left room: blocked jobs may fit now.
local freed, left_by = false, {}
-- Jobs of which this call placed tasks: blocked jobs may wait for them.
local gained = {}

-- Keys that this call would write and that are not in KEYS: the caller repeats the call with them. Checked before the
-- validation, because nothing is rolled back (semantics 12). Returns the reply {"keys", name…}, or nil.
local function lacking()
  local load_copies = far.copied and far.copies.load
  if load_copies then load_copies() end
  local names, seen = {}, {}
  local function want(name)
    if not named[name] then names[#names + 1] = name end
  end
  for _, j in pairs(J) do
    if j and not seen[j.kind] then
      seen[j.kind] = true
      want('pending:' .. j.kind)
    end
  end
  for _, m in pairs(M) do
    local executor = m and m[EXECUTOR]
    if executor and not seen[executor] then
      seen[executor] = true
      want('box:' .. executor)
    end
  end
  table.sort(names)
  return names[1] and answering({ 'keys' }, names)
end

local function mailbox_of(executor)
  local mailbox = mailboxes[executor]
  if not mailbox then
    mailbox = {}
    mailboxes[executor] = mailbox
  end
  return mailbox
end

-- Placements of one group that follow one another share a message, "+ job group duration hold placement (machine tasks)…",
-- and a line of the log, "places job group need placement machine tasks" and " machine:tasks" for each further one, without
-- tasks when it has the next task alone. Their ids follow the first one's. need: "amount,…" of a task, from which numbers and
-- amounts of the machines follow.
-- group: its number as text; n: how many so far, none while nothing is open.
local open = { n = 0, job = false, group = '', hold = '', need = '', duration = '', executor = 0, items = {}, facts = {}, last = 0 }

local function close()
  local o, n = open, open.n
  if n == 0 then return end
  o.n = 0
  local lead = o.job.id .. ' ' .. o.group .. ' '
  facts[#facts + 1] = 'places ' .. lead .. o.need .. ' ' .. concat(o.facts, ' ', 1, n)
  local mailbox = mailbox_of(o.executor)
  mailbox[#mailbox + 1] = '+ ' .. lead .. o.duration .. ' ' .. o.hold .. ' ' .. concat(o.items, ' ', 1, n)
end

local function fact(line)
  if open.n > 0 then close() end
  facts[#facts + 1] = line
end

local function message(m, line)
  if open.n > 0 then close() end
  local mailbox = mailbox_of(m[EXECUTOR])
  mailbox[#mailbox + 1] = line
end

-- A machine's number rises by one per transaction that changes it (invariant 3); own: how often this
-- call raised it.
local function touch(m, transaction)
  if m.transaction ~= transaction then
    m.transaction = transaction
    m.own = m.own + 1
    m[NUMBER] = m[NUMBER] + 1
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

-- A list of words whose first ones are these, ended by the number of a machine and by "amount,…" after the change.
local with_values
do
  local VALUES = ' %d %d' .. string.rep(',%d', R - 1)
  function with_values(text, m) return text .. format(VALUES, m[NUMBER], unpack(m, USED + 1, USED + R)) end
end

local function announce_place(j, group, g, hold, m, placement, tasks)
  local o = open
  if o.n == 0 or o.job ~= j or o.group ~= group or o.hold ~= hold or o.executor ~= m[EXECUTOR] then
    close()
    o.job, o.group, o.duration, o.hold, o.executor = j, group, format('%d', g[DURATION]), hold, m[EXECUTOR]
    o.need = format('%d' .. string.rep(',%d', R - 1), unpack(g, NEED + 1, NEED + R))
  end
  local item, n = m.key .. ' ' .. tasks, o.n + 1
  if n == 1 then item = placement .. ' ' .. item end
  o.n, o.items[n] = n, item
  o.facts[n] = n == 1 and item or tonumber(tasks) == o.last + 1 and m.key or m.key .. ':' .. tasks
  o.last = tonumber(match(tasks, '%d+$'))
end

-- When the first delayed task of a job is due, of a gang that is placed as a whole the last. Nil when there is none.
local function due_of(j)
  local due
  for _, g in ipairs(j.groups) do
    for _, loss in ipairs(g.losses and losses_of(g) or {}) do
      if loss.due > 0 and loss.tasks ~= '-' then
        due = due and (is_whole(j) and math.max or math.min)(due, loss.due) or loss.due
      end
    end
  end
  return due
end

local function write_jobs()
  if #far.touched > 0 then far.write() end
  local rows, numbers = {}, {}
  for i = 1, #changed_jobs do
    if not changed_jobs[i].was_complete then numbers[#numbers + 1] = changed_jobs[i].lane end
  end
  lanes.load(numbers)
  if pools.limited then pools.load(L, numbers) end
  for i = 1, #changed_jobs do
    local j = changed_jobs[i]
    local l = not j.was_complete and L[j.lane]
    local pending = j.unplaced > 0 and j.state <= HELD and (j.delayed == 0 or not is_whole(j))
    if j.unplaced == 0 and j.placed == 0 and j.delayed == 0 and not j.was_complete then
      if j.state <= HELD then j.state = DONE else settled[#settled + 1] = j.id end
      retired[#retired + 1] = j
      if l then l[lanes.LIVE] = l[lanes.LIVE] - 1 end
      fact('done ' .. j.id .. ' ' .. STATES[j.state])
    end
    if l then lanes.count(l, j) end
    if pending and (j.returned or not j.was_pending) then
      pend[#pend + 1] = j
      if l and not j.was_pending then l[PENDING] = l[PENDING] + 1 end
    elseif j.was_pending and not pending then
      unpend[#unpend + 1] = j
      if l then l[PENDING] = l[PENDING] - 1 end
    end
    -- What is noted of a job that had ended before: that others wait for it (links.lua).
    if j.lossy and not j.was_complete and (j.state <= HELD or j.state == DONE) then
      local due = due_of(j)
      if due then
        chores[#chores + 1], chores[#chores + 2] = format('%d', due), j.id
      else
        settled[#settled + 1] = j.id
      end
    end
    lanes.totals.count(j)
    rows[2 * i - 1], rows[2 * i] = j.id, write_job(j)
  end
  store(jobs_key, rows)
end

local function write_kinds()
  local rows = {}
  for name, k in pairs(K) do
    if k.changed and k.kept then
      rows[#rows + 1] = name
      rows[#rows + 1] = write_kind(k)
    end
  end
  store(kinds_key, rows)
end

-- Jobs by kind, as members of its queue; with the score of a new arrival before each if asked.
local function queued(jobs, arriving)
  local by_kind = {}
  for i = 1, #jobs do
    local j = jobs[i]
    local list = by_kind[j.kind] or {}
    by_kind[j.kind] = list
    if arriving then
      meta.arrivals = meta.arrivals + 1
      if L[j.lane] then L[j.lane][ARRIVAL] = meta.arrivals end
      list[#list + 1] = lanes.score(j, meta.arrivals)
    end
    list[#list + 1] = format('%02x', j.bucket) .. j.id
  end
  return by_kind
end

local function write_pending()
  for kind, list in pairs(queued(unpend, false)) do in_chunks('ZREM', named['pending:' .. kind], list) end
  if #pend == 0 then return end
  local woken = queued(pend, true)
  for kind, list in pairs(woken) do in_chunks('ZADD', named['pending:' .. kind], list) end
  for name, key in pairs(named) do
    local kind = match(name, '^wake:([^/]+)/')
    if kind and woken[kind] then wake(key) end
  end
end

-- The record of a machine as drained, written before the true one to mark changed attributes.
local function restated(m)
  local state = m[STATE]
  m[STATE] = DRAINED
  local record = pack_numbers(MACHINE, unpack(m, 1, USED + R))
  m[STATE] = state
  return record
end

local publish
do
  local function write_machines()
    local rows, texts, records = {}, {}, {}
    local at = 1
    for i = 1, #touched do
      local m = touched[i]
      local record, key = pack_numbers(MACHINE, unpack(m, 1, USED + R)), m.key
      records[i] = record
      rows[at], rows[at + 1] = key, record
      texts[at], texts[at + 1] = key, m.runs
      at = at + 2
    end
    store(machines_key, rows)
    store(runs_key, texts)
    return concat(records)
  end

  -- Whether blocked jobs wait for one of the placements of this call, by the names of jobs; "*": of any job.
  local function awaits(names)
    names = ' ' .. names .. ' '
    for i = 1, #gained do
      if find(names, ' ' .. gained[i].name .. ' ', 1, true) then return true end
    end
    return find(names, ' * ', 1, true) ~= nil
  end

  -- Tell the owners of the lanes whose tasks left room, each alone; false where all schedulers are to be told: a lane has
  -- no owner that waits, or its owner has not looked since it was told last.
  local function owners_told(waiting)
    local numbers, keys = {}, {}
    for number in pairs(left_by) do numbers[#numbers + 1] = number end
    local owners = fetch(named.owners, numbers)
    for i = 1, #numbers do
      local key = owners[i] and waiting[owners[i]]
      if not key or redis.call('LLEN', key) > 0 then return false end
      keys[key] = true
    end
    for key in pairs(keys) do redis.call('RPUSH', key, 'alone') end
    return true
  end

  -- Schedulers with blocked jobs: changed machines notify all of them, a placement those that wait for it, and room that
  -- tasks left the owners of their lanes, which hand on what they leave (semantics 19).
  local function notify_blocked()
    local tasks = next(left_by)
    if not named.asleep or not (freed or tasks or #gained > 0) then return end
    local asleep, waiting = redis.call('HGETALL', named.asleep), {}
    for i = 1, #asleep, 2 do waiting[asleep[i]] = named['wake:' .. asleep[i]] end
    local all = freed or tasks and not (named.owners and owners_told(waiting))
    for i = 1, #asleep, 2 do
      local key = waiting[asleep[i]]
      local always = tasks and sub(asleep[i + 1], 1, 1) == '-'
      if key and (all or always or #gained > 0 and awaits(asleep[i + 1])) then wake(key) end
    end
  end

  -- Write everything. A call that frees begins with a deletion, which a full server lets pass; a call
  -- that grows begins with HSET, which it refuses before anything is written (semantics 13).
  function publish(at, by, frees, before, ...)
    if frees then redis.call('HDEL', meta_key, '-') end
    local records = write_machines()
    close()
    write_jobs()
    write_kinds()
    write_pending()
    in_chunks('ZREM', housekeeping_key, settled)
    in_chunks('ZADD', housekeeping_key, chores)
    local write_waits = rawget(waiters, 'write')  -- where the call ended a job with links
    if write_waits then write_waits() end
    notify_blocked()
    write_mailboxes()
    if #retired > 0 then
      local ids = {}
      for i = 1, #retired do ids[i] = retired[i].id end
      retire(ids, meta.version + 1, meta.keep_jobs)
    end
    if pools.limited then pools.write() end
    announce((before or '') .. records .. lanes.write(), at, by, ...)
    lanes.totals.write()
  end
end
