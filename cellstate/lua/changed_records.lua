-- Read the present records that the facts after a version name, in one call: machines with their runs, jobs with
-- their queue entry and name, and the cell's counters. Read only. Audit and backup read a live cell in chunks and then
-- call this for the changes made meanwhile, until they have caught up.
--
-- KEYS   meta machines runs placed static jobs specs jobnames kinds log | pending:*
-- ARGV   dims since most
-- most: maximum number of machines and jobs, at most MOST_RECORDS, which bounds the call to some milliseconds; after the fact
-- that reaches it no further facts are read. 0 reads the counters alone. A call reads MOST_ENTRIES entries of the log.
-- Reply  {"ok", version, seen, first, length, placements, machines, jobs, chunks,
--         (index, record, runs, static part) per machine, (id, record, pending 1 or 0, holder of its name,
--         spec) per job,
--         (field, runs) per chunk of runs of these jobs, (kind, record)…}, or {"keys", name…}. seen: the last version whose facts were read; first: the
--        oldest version in the log, version + 1 when it is empty; length: its entries. A machine or job
--        that is not kept has empty records.
-- Types  meta, machines, runs, placed, static, jobs, specs, jobnames, kinds: hash; log: stream; pending: sorted set
-- Rules  semantics 18

--@include lists listing binary rows records
--@const MOST_RECORDS 5000, MOST_ENTRIES 8192

local OF_TASKS = {
  place = true, finished = true, failed = true, retried = true, lost = true, evicted = true, stopped = true, left = true,
  promote = true }
local OF_NO_RECORD = {
  aborted = true, conflict = true, rejected = true, enlist = true, leave = true, lapse = true, fit = true, unfit = true, limit = true, restore = true, cut = true,
  pool = true, trees = true, epoch = true }

local indices, ids, known_indices, known_ids = {}, {}, {}, {}

local function note(list, known, name)
  if name ~= '' and not known[name] then
    known[name] = true
    list[#list + 1] = name
  end
end

local function collect(text)
  for line in gmatch(text, '[^\n]+') do
    local word, first, second, third = match(line, '^(%S+) ?(%S*) ?(%S*) ?(%S*)')
    if word == 'places' then
      note(ids, known_ids, first)
      local index, others = match(line, '^places %S+ %d+ %S+ %d+ (%d+) %S+(.*)$')
      note(indices, known_indices, index or '')
      for other in gmatch(others or '', ' (%d+)') do note(indices, known_indices, other) end
    elseif OF_TASKS[word] then
      note(indices, known_indices, second)
      note(ids, known_ids, third)
    elseif word == 'late' then
      note(ids, known_ids, third)
    elseif word == 'join' or word == 'machine' then
      note(indices, known_indices, first)
    elseif not OF_NO_RECORD[word] then
      note(ids, known_ids, first)
    end
  end
end

local bound, read = math.min(tonumber(most), MOST_RECORDS), 0
local function full() return #indices + #ids >= bound or read >= MOST_ENTRIES end

-- Read facts up to `version`, or until `most` records are named. Returns the last version read.
local function walk(version)
  local seen = tonumber(since)
  while seen < version and not full() do
    local entries = redis.call('XRANGE', log_key, string.format('%.0f-0', seen + 1), '+', 'COUNT', 64)
    if #entries == 0 then return version end
    for _, entry in ipairs(entries) do
      seen, read = tonumber(match(entry[1], '^%d+')), read + 1
      for field = 1, #entry[2], 2 do
        if entry[2][field] == 'facts' then collect(entry[2][field + 1]) end
      end
      if full() then break end
    end
  end
  return seen
end

local counters = redis.call('HMGET', meta_key, 'version', 'placements')
local version = tonumber(counters[1]) or 0
local seen = walk(version)
local records, owners, wanted, names = fetch(jobs_key, ids), {}, {}, {}
local named = {}
for i = fixed_keys + 1, #KEYS do named[match(KEYS[i], '}:(.*)$')] = KEYS[i] end
local jobs = {}
for i = 1, #ids do
  local j = records[i] and read_job(ids[i], records[i])
  jobs[i] = j
  owners[i] = { queue = j and 'pending:' .. j.kind, member = j and format('%02x', j.bucket) .. ids[i] }
  names[i] = j and j.name or ''
  if j and not named[owners[i].queue] then wanted[#wanted + 1] = owners[i].queue end
end
if #wanted > 0 then return answering({ 'keys' }, missing(wanted, named)) end

-- Where runs of these jobs stand apart from the jobs' records (parts/placements.lua).
local chunks = {}
local function note_chunks(lead, numbers)
  for first, last in gmatch(numbers, '(%d+)%-?(%d*)') do
    for chunk = tonumber(first), tonumber(last) or tonumber(first) do
      chunks[#chunks + 1] = lead .. string.format('%.0f', chunk)
    end
  end
end
for i, id in ipairs(ids) do
  for group, g in ipairs(jobs[i] and jobs[i].groups or {}) do
    note_chunks(format('%s %d ', id, group - 1), g.live)
    note_chunks(format('%s %d !', id, group - 1), g.going)
  end
end

local oldest = redis.call('XRANGE', log_key, '-', '+', 'COUNT', 1)[1]
local first = oldest and match(oldest[1], '^%d+') or string.format('%.0f', version + 1)
local reply = {
  'ok', string.format('%.0f', version), string.format('%.0f', seen), first, redis.call('XLEN', log_key),
  counters[2] or '0', #indices, #ids, #chunks }
local function add(value) reply[#reply + 1] = value or '' end
local rows, runs, statics = fetch(machines_key, indices), fetch(runs_key, indices), fetch(static_key, indices)
local holders, specs = fetch(jobnames_key, names), fetch(specs_key, ids)
for i, index in ipairs(indices) do
  add(index)
  add(rows[i])
  add(runs[i])
  add(statics[i])
end
for i, id in ipairs(ids) do
  local owner = owners[i]
  add(id)
  add(records[i])
  add(owner.queue and redis.call('ZSCORE', named[owner.queue], owner.member) and '1' or '0')
  add(holders[i] == '' and names[i] or holders[i])
  add(specs[i])
end
local texts = fetch(placed_key, chunks)
for i, field in ipairs(chunks) do
  add(field)
  add(texts[i])
end
for _, value in ipairs(redis.call('HGETALL', kinds_key)) do add(value) end
return reply
