-- Records, and those read in this call. Integers stay below 2^53; text is written with %d, because Lua's own
-- number format loses digits from 10^14 on (semantics 12) and costs four times as much.
--   machine  index number state executor capacity*R allocated*R, eight bytes each (binary.lua); number: its
--            sequence number; state: OFFLINE is a machine that would be up, and whose executor does not live;
--            executor: its number, odd when it simulates, even when it runs commands (parts/serving.lua)
--   runs     " placement:job:group:tasks" per run on a machine, " !…" while leaving
--   job      "name kind precedence order state gang submitted bucket lane links;group;group…"
--            gang: 0 no, 1 yes, 2 strict; 4 more when its tasks run commands, so that none is to be simulated
--            links: "modified[*]<ID…>ID…" (parts/links.lua); modified: version of the last change by a person
--   group    "need*R duration total unplaced placed finished failed stopped waiting[~delayed~losses…] runs"
--            total: "total[/indices][?][xN]"; indices: given out so far, where more than the total; "?": optional;
--            N: losses that a task survives, "-" when it is placed at most once
--            unplaced: delayed ones too; waiting: the unplaced tasks that may be placed; losses: losses.lua; runs: "placement@machine," each, "!placement@machine," leaving, and "#chunks[!chunks]" where more of
--            them stand in chunks apart (placements.lua)
--   kind     "max_jobs lowest highest max*R jobs used*R"               "-": no limit

local R = tonumber(dims)
-- Where a machine's words are in its table; capacity and use are those plus the dimension.
--@const NUMBER 2, STATE 3, EXECUTOR 4, CAPACITY 4
local USED = CAPACITY + R
local MACHINE = '<' .. string.rep('i8', 4 + 2 * R)
local AMOUNTS = string.rep(' %d', R)
-- Where a group's words are; its need is NEED plus the dimension. A record's leading words never change: they are
-- captured whole as well, and written back as they are. ENDS: how many finished, failed, were stopped.
--@const LEAD 1, NEED 1
local DURATION, UNPLACED, PLACED, ENDS, WAITING, RUNS = R + 2, R + 3, R + 4, R + 5, R + 6, R + 7
local GROUP = '^(' .. string.rep('(%d+) ', R + 1) .. '%S+) (%d+) (%d+) (%d+ %d+ %d+) (%S+) (%S+)$'
local HEAD = '^(%S+ (%S+) %d+ %d+ )(%d)( (%d) %d+ (%x%x) (%d+) )([^;]+);(.*)$'
--@const UP 0, DRAINED 1, DOWN 2, GONE 3, OFFLINE 4
--@const STRICT 2, COMMANDS 4
--@const ACTIVE 0, HELD 1, JOB_STOPPED 2, ABANDONED 3, DONE 4
local STATES = { [0] = '0', '1', '2', '3', '4' }

local M, J, K = {}, {}, {}
local touched, changed_jobs = {}, {}
-- Runs that stand apart from their job's record, and what is done with them: placements.lua.
local far = { lists = {}, touched = {} }

-- A machine's table: its words, and what this call does to it. key: its index as text.
local function machine_of(key, runs, ...)
  return { key = key, runs = runs, transaction = 0, own = 0, touched = false, ... }
end

local function capacity_of(m) return format(AMOUNTS, unpack(m, CAPACITY + 1, USED)) end

local function load_machines(wanted)
  local list = missing(wanted, M)
  local rows, texts = fetch(machines_key, list), fetch(runs_key, list)
  for i = 1, #list do
    local row, key = rows[i], list[i]
    M[key] = row and machine_of(key, texts[i] or '', unpack_numbers(MACHINE, row))
  end
end

local function read_group(text)
  local g = {
    first = false, last = 0, added = false, dropped = false, leaves = nil, losses = false, delayed = 0,
    wanted = 0, held = 0, queue = false, at = 0, back = false, live = '-', going = '-', match(text, GROUP) }
  for i = NEED + 1, NEED + R do g[i] = tonumber(g[i]) end
  g[UNPLACED], g[PLACED] = tonumber(g[UNPLACED]), tonumber(g[PLACED])
  local apart = find(g[RUNS], '#', 1, true)
  if apart then
    g.live, g.going = match(g[RUNS], '^([^!]+)!?(.*)$', apart + 1)
    g.going, g[RUNS] = g.going == '' and '-' or g.going, sub(g[RUNS], 1, apart - 1)
  end
  if find(g[WAITING], '~', 1, true) then
    local waiting, delayed, losses = match(g[WAITING], '^([^~]+)~(%d+)(.*)$')
    g[WAITING], g.losses, g.delayed = waiting, losses, tonumber(delayed)
    g[UNPLACED] = g[UNPLACED] - g.delayed
  end
  g.wanted, g.held = g[UNPLACED], g[PLACED]
  return g
end

local function read_job(id, text)
  local lead, kind, state, middle, gang, bucket, lane, links, rest = match(text, HEAD)
  local groups, placed, unplaced, delayed, lossy = {}, 0, 0, 0, false
  if not find(rest, ';', 1, true) then
    local g = read_group(rest)
    groups[1], placed, unplaced, delayed, lossy = g, g[PLACED], g[UNPLACED], g.delayed, g.losses and true
  else
    for part in gmatch(rest, '[^;]+') do
      local g = read_group(part)
      groups[#groups + 1] = g
      placed, unplaced, delayed = placed + g[PLACED], unplaced + g[UNPLACED], delayed + g.delayed
      lossy = lossy or g.losses and true
    end
  end
  state, gang = tonumber(state), tonumber(gang)
  return {
    id = id, kind = kind, state = state, gang = gang % COMMANDS, commands = gang >= COMMANDS, bucket = bucket,
    lane = lane, lead = lead, middle = middle,
    links = links, groups = groups, placed = placed, unplaced = unplaced, delayed = delayed, lossy = lossy,
    was_complete = unplaced + delayed == 0 and placed == 0,
    was_pending = unplaced > 0 and state <= HELD and (gang % COMMANDS == 0 or delayed == 0), touched = false, returned = false,
  }
end

local function load_jobs(wanted)
  local list = missing(wanted, J)
  local rows = fetch(jobs_key, list)
  for i = 1, #list do
    local id = list[i]
    J[id] = rows[i] and read_job(id, rows[i])
  end
end

local function name_of(j) return (match(j.lead, '^%S+')) end

local function precedence_of(j) return tonumber((match(j.lead, '^%S+ %S+ (%d+)'))) end

-- How many tasks of a group finished, failed, were stopped.
local function ended_of(g) return { match(g[ENDS], '^(%d+) (%d+) (%d+)$') } end

-- Count tasks of a group as ended: which of finished 1, failed 2, stopped 3.
local COUNTED = { '^(.-)(%d+)(.*)$', '^(%d+ )(%d+)(.*)$', '^(%d+ %d+ )(%d+)(.*)$' }
local function count_ended(g, which, count)
  local before, ended, after = match(g[ENDS], COUNTED[which])
  g[ENDS] = before .. format('%d', ended + count) .. after
end

-- The text of a group's runs. What one call adds and drops is kept apart until somebody asks: a job on
-- thousands of machines has a long text, which would be copied for each of its tasks.
local function runs_of(g)
  local text = g[RUNS]
  if g.added then
    local more = concat(g.added, ',') .. ','
    text = text == '-' and more or text .. more
    g.added = false
  end
  if g.dropped then
    text = g.dropped[text] or string.gsub(text, '[^,]+,', g.dropped)
    g.dropped = false
  end
  if text == '' then text = '-' end
  g[RUNS] = text
  return text
end

-- The unplaced tasks as text. What one call takes and puts back is kept apart until somebody asks: first, last: what is
-- left of one range; queue, at: of several; back: what was put back.
local function waiting_of(g)
  if g.first then
    g[WAITING] = g.first == g.last and format('%d', g.first) or format('%d-%d', g.first, g.last)
    g.first = false
  elseif g.queue then
    g[WAITING], g.queue = spell(g.queue, g.at), false
  end
  if g.back then
    g[WAITING], g.back = span_add(g[WAITING], concat(g.back, ',')), false
  end
  return g[WAITING]
end

local function write_group(g)
  local waiting, unplaced = waiting_of(g), g[UNPLACED]
  if g.losses then
    waiting, unplaced = format('%s~%d%s', waiting, g.delayed, g.losses), unplaced + g.delayed
  end
  local text = g[LEAD] .. format(' %d %d ', unplaced, g[PLACED]) .. g[ENDS] .. ' ' .. waiting .. ' ' .. runs_of(g)
  if g.going ~= '-' then return text .. '#' .. g.live .. '!' .. g.going end
  return g.live == '-' and text or text .. '#' .. g.live
end

local function write_job(j)
  local head = j.lead .. STATES[j.state] .. j.middle .. j.links .. ';'
  if #j.groups == 1 then return head .. write_group(j.groups[1]) end
  local parts = {}
  for i, g in ipairs(j.groups) do parts[i] = write_group(g) end
  return head .. concat(parts, ';')
end

local function load_kinds(names)
  local list = missing(names, K)
  local rows = fetch(kinds_key, list)
  for i, name in ipairs(list) do
    local k, n = { limit = {}, used = {}, jobs = 0, changed = false, limited = false }, 0
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
    k.amounts_limited = n > 0
    k.limited = n > 0 or k.max_jobs or k.lowest
    K[name] = k
  end
end

local function write_kind(k)
  local words = { k.max_jobs or '-', k.lowest or '-', k.highest or '-' }
  for d = 1, R do words[3 + d] = k.limit[d] and format('%d', k.limit[d]) or '-' end
  words[4 + R] = k.jobs
  for d = 1, R do words[4 + R + d] = format('%d', k.used[d]) end
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

-- The position and content of a run on a machine, its group as text; nil when there is none of that id.
local function find_run(m, placement, leaving)
  local lead = (leaving and ' !' or ' ') .. placement .. ':'
  local from, at = find(m.runs, lead, 1, true)
  if not from then return nil end
  local _, to, job, group, tasks = find(m.runs, '^([^:]+):(%d+):(%S+)', at + 1)
  return from, to, job, group, tasks
end

-- How many tasks of a group the machine still holds, up to so many; -1 when it holds more than it has.
local function room(m, g, most)
  for d = 1, R do
    local free, need = m[CAPACITY + d] - m[USED + d], g[NEED + d]
    if free < 0 then return -1 end
    if need > 0 and free < need * most then most = floor(free / need) end
  end
  return most
end
