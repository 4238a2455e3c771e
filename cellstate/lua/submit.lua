-- Submit jobs. The same job again under its id changes nothing.
--
-- KEYS   meta machines runs jobs specs jobnames kinds lanes lanenames pools changes log done recent history results housekeeping waiters copied | pending:* wake:*
-- ARGV   dims tag at by settings | jobs
-- settings: for the log, terms of the jobs' groups (cellstate/logged_settings.py).
-- A job is four words: its id; its record as it is stored, but for the numbers that the store gives (order, lane, modified,
-- state; links are those that hold it back, parts/links.lua); the name of its lane, which has its kind, precedence,
-- pool, user and class of expected duration (parts/lanes.lua); its opaque spec.
-- Reply  {"ok", version, answer…}: "new", "same INDEX" (its modify index), "id" (the id belongs to another
--        job), "name ID" (a live job has that name), "after ID" (it would wait for a job that is not there: one
--        that was submitted earlier, or stands earlier in this call, is; so no circle arises), "pool POOL" (pools are
--        configured, and that is no leaf of them; POOL as in lanes) or "user POOL" (the lists of users of that pool and those above it do not admit the
--        job's user); or {"keys", name…} with nothing done.
-- Types  as in commit.lua
-- Rules  pending tasks are ranges, not records (semantics 21); begins with HSET (13).

--@include lists listing binary rows named counters
--@inner
--@include announce ranges records done pools lanes totals publish links

local asked, ids, jobnames = {}, {}, {}
for i = fixed_args + 1, #ARGV, 4 do
  local a = read_job(ARGV[i], ARGV[i + 1])
  a.lane_name, a.spec, a.record, a.asked = ARGV[i + 2], ARGV[i + 3], ARGV[i + 1], a.links
  asked[#asked + 1] = a
  ids[#ids + 1], jobnames[#jobnames + 1] = a.id, a.name
end
local function want_keys()
  local names = {}
  for _, a in ipairs(asked) do
    if not named['pending:' .. a.kind] then names[#names + 1] = 'pending:' .. a.kind end
  end
  return names
end
local names = want_keys()
if #names > 0 then return answering({ 'keys' }, names) end

local records, specs, holders = fetch(jobs_key, ids), fetch(specs_key, ids), fetch(jobnames_key, jobnames)

-- A job that ended leaves its name to the next one that is submitted.
local named_ids = {}
for i = 1, #asked do
  if holders[i] then named_ids[#named_ids + 1] = holders[i] ~= '' and holders[i] or jobnames[i] end
end
load_jobs(named_ids)
local function taken(i)
  local holder = holders[i] and J[holders[i] ~= '' and holders[i] or jobnames[i]]
  return holder and not holder.was_complete
end

-- Whether the fields of two jobs that never change are the same: all but state, links, counts and ranges.
local function alike(a, b)
  for _, name in ipairs({ 'name', 'kind', 'precedence', 'gang', 'gang_min', 'commands' }) do
    if a[name] ~= b[name] then return false end
  end
  for i = 1, math.max(#a.groups, #b.groups) do
    local g, h = a.groups[i], b.groups[i]
    if not g or not h or g[DURATION] ~= h[DURATION]
      or g[OPTIONAL] ~= COPIES and (g[TOTAL] ~= h[TOTAL] or g[INDICES] ~= h[INDICES])  -- the number of copies changes
      or g[BUDGET] ~= h[BUDGET] or g[OPTIONAL] ~= h[OPTIONAL] then return false end
    for d = NEED + 1, NEED + R do
      if g[d] ~= h[d] then return false end
    end
  end
  return true
end

local awaited = {}
for _, a in ipairs(asked) do
  for id in gmatch(a.links, '<([^<>+*]+)') do awaited[#awaited + 1] = id end
end
load_jobs(awaited)

-- Why jobs may not enter their pools, once pools are configured: a pool that they name holds no jobs, or does not admit
-- their user. A job without a pool is in the one of its user's name, else in an ephemeral one.
local refusals = {}
if meta.pools > 0 then
  local leaves, lists, users = {}, {}, {}
  for i, a in ipairs(asked) do
    leaves[i] = 'c' .. pools.leaf_of({ name = a.lane_name })
    lists[i], users[i] = 'u' .. sub(leaves[i], 2), match(a.lane_name, ',([^ ,]*),[^ ,]*$')
  end
  local chains = fetch(pools_key, leaves)
  for i = 1, #asked do
    if leaves[i] == 'c' or not chains[i] then lists[i] = 'u' end
  end
  local admitted = fetch(pools_key, lists)
  for i, a in ipairs(asked) do
    local pool = match(a.lane_name, ' ([^ ,]*),[^ ]*$')
    if not chains[i] and pool ~= '' then
      refusals[a] = 'pool ' .. pool
    elseif admitted[i] and not find(' ' .. admitted[i] .. ' ', ' ' .. users[i] .. ' ', 1, true) then
      refusals[a] = 'user ' .. sub(leaves[i], 2)
    end
  end
end

local answers, fresh, by_id, by_name, waiting = {}, {}, {}, {}, {}

-- The unmet dependencies of a new job; nil and the answer when the job is refused: it waits for a job that does not exist.
-- One that ended in another state than required is kept: housekeeping stops the new job, as if the other ended just now.
local function open_links(links)
  local kept = {}
  for link in gmatch(links, '<[^<>]+') do
    local id, plus = match(link, '^<([^+]+)(%+?)$')
    local j = J[id]
    if id == '*' or by_id[id] then
      kept[#kept + 1] = link
    elseif not j then
      return nil, 'after ' .. id
    elseif not j.was_complete or (plus == '' and not waiters.finished(j)) then
      kept[#kept + 1] = link
    end
  end
  return concat(kept)
end

-- An unused number for a lane: a freed one, or the next. Lanes that this call creates are not stored yet.
local created, existing = 0, false
local function free_number()
  created = created + 1
  if not lanes.spare then lanes.spare = redis.call('HGET', lanes_key, 'spare') or '' end
  local rest, last = match(lanes.spare, '^(.-)(%d+) $')
  if last then
    lanes.spare = rest
    return tonumber(last)
  end
  existing = existing or redis.call('HLEN', lanes_key) - redis.call('HEXISTS', lanes_key, 'spare')
  return existing + created
end

-- The lane of a name, created when it does not exist.
local function lane_named(name, number)
  if number then
    lanes.load({ number })
    return L[number]
  end
  number = free_number()
  meta.lanes = meta.lanes + 1
  local l = { LANE_BASE + number, meta.lanes, 0, 0 }
  for i = WANTED + 1, lanes.RUNNING do l[i] = 0 end
  l.number, l.name, l.changed, l.fresh = number, name, false, true
  L[number] = l
  lanes.change(l)
  return l
end

-- The numbers of the existing lanes, by name.
local lane_numbers, lane_names = {}, {}
for i, a in ipairs(asked) do lane_names[i] = a.lane_name end
for i, number in ipairs(fetch(lanenames_key, lane_names)) do lane_numbers[lane_names[i]] = tonumber(number) end

-- Count a new job in its lane; with too many lanes, all further jobs of a kind share one.
local function join_lane(a)
  local number = lane_numbers[a.lane_name]
  if not number and #lane_names > 0 and redis.call('HLEN', lanes_key) > MOST_LANES then
    a.lane_name = a.kind .. ' 0 ,,'
    number = lane_numbers[a.lane_name] or tonumber(redis.call('HGET', lanenames_key, a.lane_name))
  end
  local l = lane_named(a.lane_name, number)
  lane_numbers[a.lane_name], a.lane = l.number, l.number
  lanes.change(l)
  l[lanes.LIVE], l[PENDING] = l[lanes.LIVE] + 1, l[PENDING] + 1
  for _, g in ipairs(a.groups) do lanes.want(l, g, 0, g[TOTAL]) end
end

local function enter(a)
  join_lane(a)
  meta.jobs = meta.jobs + 1
  a.order = meta.jobs
  for id in gmatch(a.links, '<([^<>+*]+)') do
    local other = by_id[id] or J[id]
    waiting[#waiting + 1], waiting[#waiting + 2] = '0', waiters.member(id, a)
    if not waiters.wait_for(other) then
      other.links = other.links .. '>*'
      if not by_id[id] then touch_job(other) end
    end
    if other.was_complete then chores[#chores + 1], chores[#chores + 2] = '0', id end
  end
  a.state = a.links == '' and ACTIVE or HELD
  by_id[a.id], by_name[a.name] = a, a.id
  fresh[#fresh + 1] = a
end

for i, a in ipairs(asked) do
  local known, spec = by_id[a.id], specs[i] or ''
  if known then
    spec = known.spec
  else
    known = records[i] and read_job(a.id, records[i])
  end
  if known then
    local same = spec == a.spec and alike(known, a)
    answers[i] = same and format('same %d', known.modified) or 'id'
  elseif by_name[a.name] or taken(i) then
    answers[i] = 'name ' .. (by_name[a.name] or (holders[i] ~= '' and holders[i] or a.name))
  elseif refusals[a] then
    answers[i] = refusals[a]
  else
    local links, why = open_links(a.links)
    answers[i] = why or 'new'
    if links then
      a.links, a.modified = links, meta.version + 1
      enter(a)
    end
  end
end

if #fresh > 0 then
  local rows, opaque, named_rows, listed = {}, {}, {}, {}
  for i, a in ipairs(fresh) do
    rows[2 * i - 1] = a.id
    rows[2 * i] = a.links == a.asked and byte(a.record) == R and write_head(a) .. sub(a.record, HEAD_BYTES + 1) or write_job(a)
    named_rows[2 * i - 1], named_rows[2 * i] = a.name, a.name ~= a.id and a.id or ''
    if a.spec ~= '' then
      opaque[#opaque + 1] = a.id
      opaque[#opaque + 1] = a.spec
    end
    for _, g in ipairs(a.groups) do
      if g[OPTIONAL] == COPIES then redis.call('HSET', copied_key, a.id, a.kind) end
    end
    pend[#pend + 1] = a
    listed[2 * i - 1], listed[2 * i] = format('%d', a.order), a.id
    lanes.totals.enter(a)
    local who = a.name == a.id and 'submits ' .. a.id or 'submit ' .. a.id .. ' ' .. a.name
    fact(format('%s %s %d %d', who, a.kind, a.precedence, a.unplaced))
    for id in gmatch(a.links, '<([^<>+*]+)') do fact('awaited ' .. id .. ' ' .. a.id) end
  end
  for _, j in ipairs(changed_jobs) do
    rows[#rows + 1] = j.id
    rows[#rows + 1] = write_job(j)
  end
  store(jobs_key, rows)
  store(specs_key, opaque)
  store(jobnames_key, named_rows)
  in_chunks('ZADD', recent_key, listed)
  in_chunks('ZADD', waiters_key, waiting)
  in_chunks('ZADD', housekeeping_key, chores)
  write_pending()
  announce(lanes.write(), at, by, 'settings', settings)
  lanes.totals.write()
end
return answering({ 'ok', format('%d', meta.version) }, answers)
