-- Records, and those read in this call. Integers stay below 2^53; text is written with %d, because Lua's own
-- number format loses digits from 10^14 on (semantics 12) and costs four times as much.
--   runs     " placement:job:group:tasks" per run on a machine, " !…" while leaving
--   job, group  bytes, in the order of the tables of cellstate/schema.py, from which the part "schema" is made
--   kind     "max_jobs lowest highest max*R jobs used*R"               "-": no limit

--@schema
local M, J, K = {}, {}, {}
local touched, changed_jobs = {}, {}
--@const COPIES 2, REPLACED 4
-- Runs that stand apart from their job's record, and what is done with them: placements.lua. copies.lua; copied: whether a job
-- of this call has copies. losses.lua; lost_at: the server's time in ms, 0 where it was not asked for, as in a commit.
local far = { lists = {}, touched = {}, copies = {}, copied = false }
local losses = { lost_at = 0 }

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

-- A loss of tasks of a group (losses.lua); low, high: the first and the last of them.
local function loss_of(tasks, count, due, placement, failures, machine)
  return {
    tasks = tasks, count = count, due = due, placement = placement, failures = failures, machine = machine, low = tonumber(match(tasks, '^%d+')),
    high = tonumber(match(tasks, '%d+$')) }
end

-- Add a loss to a list, which has the first and the last task of all losses.
local function add_loss(list, loss)
  list[#list + 1], list.low, list.high = loss, math.min(list.low, loss.low), math.max(list.high, loss.high)
end

-- The losses of a group, read on first use.
local function losses_of(g)
  if not g.loss_list then
    local list = { low = math.huge, high = -1 }
    for tasks, count, due, placement, more in gmatch(g.losses or '', '~([^:~]+):(%d+):(%d+):(%d+)([%d:]*)') do
      local failures, machine = match(more, '(%d+):(%d+)')
      add_loss(list, loss_of(tasks, tonumber(count), tonumber(due), placement, tonumber(failures or 0), machine or ''))
    end
    g.loss_list = list
  end
  return g.loss_list
end

-- The losses as text; false when there are none.
local function text_of_losses(list)
  local parts = {}
  for _, loss in ipairs(list) do
    if loss.tasks ~= '-' then
      parts[#parts + 1] = format('~%s:%d:%d:%s', loss.tasks, loss.count, loss.due, loss.placement)
        .. (loss.failures > 0 and format(':%d:%s', loss.failures, loss.machine) or '')
    end
  end
  return #parts > 0 and concat(parts)
end

-- A group's numbers and texts, and what this call does to it. live, going: its chunks of runs (placements.lua).
-- layout: of its numbers, which stand at `at`; its texts at `texts`. Returns where these end as well.
local function group_of(layout, record, at, texts)
  local g = {
    first = false, losses = false, wanted = 0, held = 0, live = '-', going = '-', waiting = '', runs = '', rest = '',
    unpack_numbers(layout, record, at) }
  g.waiting, g.runs, g.rest, texts = unpack_numbers('<I4c0I4c0I4c0', record, texts)
  if g.rest ~= '' then
    g.losses, g.live, g.going = match(g.rest, '^(.-)#(.-)!(.*)$')
    g.losses = g.losses ~= '' and g.losses
  end
  g.wanted, g.held = g[UNPLACED], g[PLACED]
  g.was = { g[TOTAL], g[FINISHED], g[FAILED], g[STOPPED], g[PLACED], g[UNPLACED] + g[DELAYED], g[OPTIONAL], g[DELAYED] }
  return g, texts
end

-- Whether all unplaced tasks of a job are placed together: a gang without a minimum (semantics 8).
local function is_whole(j) return j.gang > 0 and j.gang_min == 0 end

local function read_job(id, record)
  local j, resources, texts = read_head(id, record)
  local layout, bytes = layout_of(resources)
  local at, groups, placed, unplaced, delayed = HEAD_BYTES + 1, {}, 0, 0, 0
  for i = 1, j.size do
    local g
    g, texts = group_of(layout, record, at, texts)
    for d = resources + 1, R do g[NEED + d] = 0 end
    at = at + bytes
    groups[i], placed, unplaced, delayed = g, placed + g[PLACED], unplaced + g[UNPLACED], delayed + g[DELAYED]
    if g.losses then j.lossy, j.copied = true, j.copied or g[OPTIONAL] == COPIES end
    far.copied = far.copied or j.copied
  end
  j.groups, j.placed, j.unplaced, j.delayed = groups, placed, unplaced, delayed
  j.was_complete = unplaced + delayed == 0 and placed == 0
  j.was_state, j.was_placed = j.state, placed
  j.was_pending = unplaced > 0 and j.state <= HELD and (delayed == 0 or not is_whole(j))
  return j
end

local function load_jobs(wanted)
  local list = missing(wanted, J)
  local rows = fetch(jobs_key, list)
  for i = 1, #list do
    local id = list[i]
    J[id] = rows[i] and read_job(id, rows[i])
  end
end

-- The number of ended tasks of a group: finished, failed, stopped.
local function ended_of(g) return g[FINISHED] + g[FAILED] + g[STOPPED] end

local runs_of
do
  -- Runs as text. A run whose id follows that of the run before, which is live, is written without it.
  local function chained(items)
    local last
    for i = 1, #items do
      local id, machine = match(items[i], '^(%d+)(@%d+)$')
      id = id and tonumber(id)
      if last and id == last + 1 then items[i] = machine end
      last = id
    end
    return concat(items, ',') .. ','
  end

  -- The text of runs, some of them without ids, without the dropped ones. What followed one of these gets its id.
  local function without(text, dropped)
    local gone, kept, id, after = {}, {}, 0, false
    for item in pairs(dropped) do
      local mark, placement = match(item, '^(!?)(%d+)')
      gone[tonumber(placement) * (mark == '' and 1 or -1)] = true
    end
    for mark, first, machine in gmatch(text, '(!?)(%d*)(@%d+)') do
      id = first == '' and id + 1 or tonumber(first)
      if gone[mark == '' and id or -id] then
        after = true
      else
        kept[#kept + 1] = mark .. (after and first == '' and format('%d', id) or first) .. machine
        after = false
      end
    end
    return kept[1] and concat(kept, ',') .. ',' or ''
  end

  -- The text of a group's runs. Additions and removals of a call are collected until the text is needed: the text of a job
  -- on thousands of machines is long and would be copied for each task.
  function runs_of(g)
    local text = g.runs
    if g.added then
      text = text .. chained(g.added)
      g.added = false
    end
    if g.dropped then
      text = g.dropped[text] or find(text, ',@', 1, true) and without(text, g.dropped) or string.gsub(text, '[^,]+,', g.dropped)
      g.dropped = false
    end
    g.runs = text
    return text
  end
end

-- Whether tasks of a group are leaving anywhere.
local function has_leaving(g)
  if g.leaves == nil then g.leaves = g.new_chunks and g.new_chunks.going ~= nil or g.going ~= '-' or find(runs_of(g), '!', 1, true) ~= nil end
  return g.leaves
end

-- The unplaced tasks as text. Tasks taken and put back by a call are collected until the text is needed: first, last: the
-- rest of one range; queue, at: of several; back: tasks that are pending again.
local function waiting_of(g)
  if g.first then
    g.waiting = g.first == g.last and format('%d', g.first) or format('%d-%d', g.first, g.last)
    g.first = false
  elseif g.queue then
    g.waiting, g.queue = spell(g.queue, g.at), false
  end
  if g.back then
    g.waiting, g.back = span_add(g.waiting, concat(g.back, ',')), false
  end
  return g.waiting
end

-- The texts of a group as they are to be.
local function settle_texts(g)
  waiting_of(g)
  runs_of(g)
  if g.loss_list then g.losses, g.loss_list = text_of_losses(g.loss_list), false end
  g.rest = (g.losses or g.live ~= '-' or g.going ~= '-') and (g.losses or '') .. '#' .. g.live .. '!' .. g.going or ''
end

local function write_job(j)
  local groups = j.groups
  j.size, j.leaving = #groups, false
  for i = 1, #groups do
    local g = groups[i]
    settle_texts(g)
    if g.going ~= '-' or find(g.runs, '!', 1, true) then j.leaving = true end
  end
  local g = groups[1]
  if not groups[2] then return write_head(j) .. pack_numbers(GROUP, unpack(g, 1, NEED + R)) .. write_texts(j, g) end
  local parts, n = { write_head(j) }, #groups
  for i = 1, n do
    g = groups[i]
    parts[i + 1] = pack_numbers(GROUP, unpack(g, 1, NEED + R))
    parts[n + i + 1] = i == 1 and write_texts(j, g) or write_group_texts(g)
  end
  return concat(parts)
end

-- Kinds by their names. Only those with limits have a record; what others hold follows from their lanes.
local function load_kinds(names)
  local list = missing(names, K)
  local rows = meta.limits > 0 and fetch(kinds_key, list) or {}
  for i, name in ipairs(list) do
    local k, n = { limit = {}, used = {}, jobs = 0, changed = false, limited = false, kept = rows[i] }, 0
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
