-- Records as text, and those read in this call. Integers stay below 10^14 (semantics 12).
--   machine  "index number state executor capacity*R allocated*R"     number: its sequence number
--   runs     " placement:job:group:tasks" per run on a machine, " !…" while leaving
--   job      "name kind precedence order state gang submitted bucket links;group;group…"
--            links: "modified<ID…>ID…" (parts/links.lua); modified: version of the last change by a person
--   group    "need*R duration total unplaced placed finished failed stopped waiting runs"
--            total: "total[/indices][?]"; indices: given out so far, where more than the total; "?": optional
--            waiting: the unplaced tasks; runs: "placement@machine," each, "!placement@machine," leaving
--   kind     "max_jobs lowest highest max*R jobs used*R"               "-": no limit

local match, gmatch, find, sub = string.match, string.gmatch, string.find, string.sub
local concat, floor = table.concat, math.floor

local R = tonumber(dims)
local USED = 4 + R
local MACHINE = '^' .. string.rep('(%d+) ', 3 + 2 * R) .. '(%d+)$'
-- A record's leading words never change: they are captured whole as well, and written back as they are.
local DURATION, TOTAL, UNPLACED, PLACED, FINISHED = R + 2, R + 3, R + 4, R + 5, R + 6
local FAILED, STOPPED, WAITING, RUNS = R + 7, R + 8, R + 9, R + 10
local GROUP = '^(' .. string.rep('(%d+) ', R) .. '(%d+) (%S+)) ' .. string.rep('(%d+) ', 5) .. '(%S+) (%S+)$'
local HEAD = '^((%S+) (%S+) (%d+) (%d+) (%d) (%d) (%d+) (%x%x) ([^;]+));(.*)$'
local UP, DRAINED, DOWN, GONE = '0', '1', '2', '3'
local STRICT = 2
local ACTIVE, HELD, JOB_STOPPED, ABANDONED, DONE = 0, 1, 2, 3, 4

local M, J, K = {}, {}, {}
local touched, changed_jobs = {}, {}

-- unpack fails near 8,000 arguments (semantics 11): ask in chunks.
local function fetch(key, fields)
  local n = #fields
  if n == 0 then return {} end
  if n <= 4000 then return redis.call('HMGET', key, unpack(fields)) end
  local all = {}
  for from = 1, n, 4000 do
    local to = math.min(from + 3999, n)
    local part = redis.call('HMGET', key, unpack(fields, from, to))
    for i = 1, to - from + 1 do all[from + i - 1] = part[i] end
  end
  return all
end

local function store(key, pairs_flat)
  for from = 1, #pairs_flat, 4000 do
    redis.call('HSET', key, unpack(pairs_flat, from, math.min(from + 3999, #pairs_flat)))
  end
end

-- A reply: its first words, then a list that may be longer than unpack takes.
local function answering(words, list)
  for i = 1, #list do words[#words + 1] = list[i] end
  return words
end

local function missing(wanted, known)
  local list, seen = {}, {}
  for _, field in ipairs(wanted) do
    if known[field] == nil and not seen[field] then
      seen[field] = true
      list[#list + 1] = field
    end
  end
  return list
end

local function load_machines(wanted)
  local list = missing(wanted, M)
  local rows, texts = fetch(machines_key, list), fetch(runs_key, list)
  for i, index in ipairs(list) do
    local m = false
    if rows[i] then
      m = {
        number = 0, own = 0, runs = texts[i] or '', transaction = 0, touched = false, amounts = false,
        match(rows[i], MACHINE) }
      m.number = tonumber(m[2])
      for d = 1, R do m[USED + d] = tonumber(m[USED + d]) end
    end
    M[index] = m
  end
end

local function read_group(text)
  local need = {}
  local g = { need = need, first = false, last = 0, match(text, GROUP) }
  for d = 1, R do need[d] = tonumber(g[1 + d]) end
  g[UNPLACED] = tonumber(g[UNPLACED])
  g[PLACED] = tonumber(g[PLACED])
  return g
end

local function read_job(id, text)
  local lead, name, kind, precedence, order, state, gang, submitted, bucket, links, rest = match(text, HEAD)
  local j = {
    id = id, name = name, kind = kind, precedence = tonumber(precedence), order = order,
    state = tonumber(state), gang = tonumber(gang), submitted = submitted, bucket = bucket,
    links = links, links_read = links, groups = {}, placed = 0, unplaced = 0, lead = lead, state_read = state,
    was_complete = false, was_pending = false, touched = false, returned = false,
  }
  for part in gmatch(rest, '[^;]+') do
    local g = read_group(part)
    j.groups[#j.groups + 1] = g
    j.placed = j.placed + g[PLACED]
    j.unplaced = j.unplaced + g[UNPLACED]
  end
  j.was_complete = j.unplaced == 0 and j.placed == 0
  j.was_pending = j.unplaced > 0 and j.state <= HELD
  return j
end

local function load_jobs(wanted)
  local list = missing(wanted, J)
  local rows = fetch(jobs_key, list)
  for i, id in ipairs(list) do
    J[id] = rows[i] and read_job(id, rows[i]) or false
  end
end

-- The text of a group's runs. What one call adds and drops is kept apart until somebody asks: a job on
-- thousands of machines has a long text, which would be copied for each of its tasks.
local function runs_of(g)
  local text = g[RUNS]
  if g.added then
    text = (text == '-' and '' or text) .. concat(g.added, ',') .. ','
    g.added = nil
  end
  if g.dropped then
    text = string.gsub(text, '[^,]+,', g.dropped)
    g.dropped = nil
  end
  g[RUNS] = text == '' and '-' or text
  return g[RUNS]
end

-- The unplaced tasks as text (tasks.lua take_waiting keeps one range as numbers).
local function waiting_of(g)
  if g.first then
    g[WAITING] = g.first == g.last and ('' .. g.first) or (g.first .. '-' .. g.last)
    g.first = false
  end
  return g[WAITING]
end

local function write_group(g)
  runs_of(g)
  waiting_of(g)
  return g[1] .. ' ' .. concat(g, ' ', UNPLACED)
end

local function write_job(j)
  local lead = j.lead
  if j.state ~= tonumber(j.state_read) or j.links ~= j.links_read then
    lead = concat({ j.name, j.kind, j.precedence, j.order, j.state, j.gang, j.submitted, j.bucket, j.links }, ' ')
  end
  if #j.groups == 1 then return lead .. ';' .. write_group(j.groups[1]) end
  local parts = { lead }
  for i, g in ipairs(j.groups) do parts[i + 1] = write_group(g) end
  return concat(parts, ';')
end

local function load_kinds(names)
  local list = missing(names, K)
  local rows = fetch(kinds_key, list)
  for i, name in ipairs(list) do
    local k, n = { limit = {}, used = {}, jobs = 0 }, 0
    local words = {}
    for word in gmatch(rows[i] or '', '%S+') do words[#words + 1] = word end
    k.max_jobs = tonumber(words[1])
    k.lowest, k.highest = tonumber(words[2]), tonumber(words[3])
    k.jobs = tonumber(words[4 + R]) or 0
    for d = 1, R do
      k.limit[d] = tonumber(words[3 + d])
      if k.limit[d] then n = n + 1 end
      k.used[d] = tonumber(words[4 + R + d]) or 0
    end
    k.limited = n > 0
    K[name] = k
  end
end

-- Sums over a cell may pass 10^14, where Lua's own number format loses digits.
local function write_kind(k)
  local words = { k.max_jobs or '-', k.lowest or '-', k.highest or '-' }
  for d = 1, R do words[3 + d] = k.limit[d] and string.format('%.0f', k.limit[d]) or '-' end
  words[4 + R] = k.jobs
  for d = 1, R do words[4 + R + d] = string.format('%.0f', k.used[d]) end
  return concat(words, ' ')
end

-- Every job with a run on these machines, and their kinds, read.
local function load_jobs_on(machines)
  local ids = {}
  for _, index in ipairs(machines) do
    local m = M[index]
    if m then
      for id in gmatch(m.runs, ' !?%d+:([^:]+):') do ids[#ids + 1] = id end
    end
  end
  load_jobs(ids)
end

local function load_kinds_of_jobs()
  local names = {}
  for _, j in pairs(J) do
    if j then names[#names + 1] = j.kind end
  end
  load_kinds(names)
end

-- The position and content of a run on a machine; nil when there is none of that id.
local function find_run(m, placement, leaving)
  local from = find(m.runs, (leaving and ' !' or ' ') .. placement .. ':', 1, true)
  if not from then return nil end
  local to = (find(m.runs, ' ', from + 1, true) or #m.runs + 1) - 1
  local job, group, tasks = match(sub(m.runs, from, to), '^ !?%d+:([^:]+):(%d+):(.*)$')
  return from, to, job, tonumber(group), tasks
end

local function over(m)
  for d = 1, R do
    if m[4 + d] - m[USED + d] < 0 then return true end
  end
  return false
end

-- How many tasks of this need the machine still holds.
local function room(m, need)
  local most = math.huge
  for d = 1, R do
    local free = m[4 + d] - m[USED + d]
    if free < 0 then return 0 end
    if need[d] > 0 and free < need[d] * most then most = floor(free / need[d]) end
  end
  return most
end
