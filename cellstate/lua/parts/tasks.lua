-- What happens to tasks: placed, ended, put back. Amounts on machines (occupy) and of kinds (book)
-- are separate from the records, because a commit judges with the first and writes the second later.

local function occupy(m, need, count)
  m.amounts = false
  for d = 1, R do m[USED + d] = m[USED + d] + need[d] * count end
end

local function book(kind, need, count)
  local k = K[kind]
  k.changed = true
  for d = 1, R do k.used[d] = k.used[d] + need[d] * count end
end

local function count_admitted(j, before)
  local k = K[j.kind]
  if before == 0 and j.placed > 0 then
    k.jobs, k.changed = k.jobs + 1, true
  elseif before > 0 and j.placed == 0 then
    k.jobs, k.changed = k.jobs - 1, true
  end
end

local function drop_run(g, item)
  g.dropped = g.dropped or {}
  g.dropped[item .. ','] = ''
  if g.leaves then g.leaves = nil end
end

local function add_run(g, item)
  if g.dropped and g.dropped[item .. ','] then runs_of(g) end
  g.added = g.added or {}
  g.added[#g.added + 1] = item
  if sub(item, 1, 1) == '!' then g.leaves = true end
end

-- Whether tasks of a group are leaving anywhere.
local function leaves(g)
  if g.leaves == nil then g.leaves = find(runs_of(g), '!', 1, true) ~= nil end
  return g.leaves
end

-- The first count of a group's waiting tasks. One range is kept as numbers until the text is asked for
-- (waiting_of): a job on hundreds of machines would be written anew for each.
local function take_waiting(g, count)
  local first, last = g.first, g.last
  if not first then
    first, last = match(g[WAITING], '^(%d+)%-(%d+)$')
    if not first then
      local tasks
      tasks, g[WAITING] = span_take(g[WAITING], count)
      return tasks
    end
    first, last = tonumber(first), tonumber(last)
  end
  local to = first + count - 1
  if to >= last then
    g.first, g[WAITING] = false, '-'
  else
    g.first, g.last = to + 1, last
  end
  return first == to and ('' .. first) or (first .. '-' .. to)
end

-- Record count tasks of a group as one run on a machine.
local function place(j, group, m, count)
  local g = j.groups[group + 1]
  local tasks = take_waiting(g, count)
  -- Starts only when what leaves this machine, or this group elsewhere, is gone (semantics 2).
  local hold = (find(m.runs, '!', 1, true) or leaves(g)) and 1 or 0
  meta.placements = meta.placements + 1
  local placement = '' .. meta.placements
  g[UNPLACED], g[PLACED] = g[UNPLACED] - count, g[PLACED] + count
  m.runs = m.runs .. ' ' .. placement .. ':' .. j.id .. ':' .. group .. ':' .. tasks
  add_run(g, placement .. '@' .. m[1])
  local before = j.placed
  j.placed, j.unplaced = before + count, j.unplaced - count
  count_admitted(j, before)
  touch_job(j)
  announce_place(j, group, g[DURATION], hold, m, placement, tasks)
end

local strict = {}

-- Take tasks of a run off its machine. how: finished, failed, lost, evicted, stopped.
-- Evicted and stopped tasks stay as leaving until their end is acknowledged (semantics 2). An optional
-- task that is evicted, lost or failed is dropped from the total and never pending again (4).
-- Returns how many there were. The caller has freed the amounts.
local function take_off(m, placement, part, how, reason)
  local from, to, id, group, tasks = find_run(m, placement, false)
  local j = J[id]
  local g = j.groups[group + 1]
  local gone, rest = span_split(tasks, part)
  local count = span_count(gone)
  local stays = rest ~= '-' and (' ' .. placement .. ':' .. id .. ':' .. group .. ':' .. rest) or ''
  m.runs = sub(m.runs, 1, from - 1) .. stays .. sub(m.runs, to + 1)
  if rest == '-' then drop_run(g, placement .. '@' .. m[1]) end
  if how == 'evicted' or how == 'stopped' then
    local lfrom, lto, _, _, leaving = find_run(m, placement, true)
    if lfrom then
      m.runs = sub(m.runs, 1, lfrom - 1) .. sub(m.runs, lto + 1)
      leaving = span_add(leaving, gone)
    else
      leaving = gone
      add_run(g, '!' .. placement .. '@' .. m[1])
    end
    m.runs = m.runs .. ' !' .. placement .. ':' .. id .. ':' .. group .. ':' .. leaving
    message(m, '- ' .. placement .. ' ' .. m[1] .. ' ' .. gone)
    if how == 'evicted' and j.gang == STRICT then strict[#strict + 1] = j end
  end
  local before = j.placed
  g[PLACED], j.placed = g[PLACED] - count, before - count
  count_admitted(j, before)
  local dropped = how ~= 'finished' and how ~= 'stopped' and j.state <= HELD and optional(g)
  if dropped then
    local total, indices = total_of(g)
    set_total(g, total - count, indices)
  elseif how == 'finished' then
    g[FINISHED] = g[FINISHED] + count
  elseif how == 'failed' then
    g[FAILED] = g[FAILED] + count
  elseif how == 'stopped' or j.state > HELD then
    g[STOPPED] = g[STOPPED] + count
  else
    g[WAITING] = span_add(waiting_of(g), gone)
    g[UNPLACED], j.unplaced, j.returned = g[UNPLACED] + count, j.unplaced + count, true
  end
  touch_job(j)
  fact(how .. ' ' .. placement .. ' ' .. m[1] .. ' ' .. id .. ' ' .. group .. ' ' .. gone .. ' ' .. values(m) .. ' ' .. reason)
  if dropped then fact('drop ' .. id .. ' ' .. group .. ' ' .. count .. ' ' .. how) end
  return count
end

-- The end of leaving tasks is acknowledged: they are physically gone.
local function acknowledge(m, placement, part)
  local from, to, id, group, tasks = find_run(m, placement, true)
  if not from then return 0 end
  local gone, rest = span_split(tasks, part == '*' and tasks or part)
  local count = span_count(gone)
  if count == 0 then return 0 end
  local stays = rest ~= '-' and (' !' .. placement .. ':' .. id .. ':' .. group .. ':' .. rest) or ''
  m.runs = sub(m.runs, 1, from - 1) .. stays .. sub(m.runs, to + 1)
  local j = J[id]
  if rest == '-' and j then
    drop_run(j.groups[group + 1], '!' .. placement .. '@' .. m[1])
    touch_job(j)
  end
  fact('left ' .. placement .. ' ' .. m[1] .. ' ' .. id .. ' ' .. group .. ' ' .. gone)
  return count
end

-- Free the amounts of tasks and take them off; part "*" means the whole run. Returns how many.
local function end_tasks(m, placement, part, how, reason, transaction)
  local from, _, id, group, tasks = find_run(m, placement, false)
  if not from then return 0 end
  local gone = part == '*' and tasks or (span_split(tasks, part))
  local count = span_count(gone)
  if count == 0 then return 0 end
  local g = J[id].groups[group + 1]
  touch(m, transaction)
  occupy(m, g.need, -count)
  book(J[id].kind, g.need, -count)
  return take_off(m, placement, gone, how, reason)
end

-- Evicting one member of a strict gang evicts all: their machines are needed too (semantics 8).
local function load_strict_gangs()
  local machines = {}
  for _, j in pairs(J) do
    if j and j.gang == STRICT then
      for _, g in ipairs(j.groups) do
        for index in gmatch(runs_of(g), '@(%d+)') do machines[#machines + 1] = index end
      end
    end
  end
  load_machines(machines)
end

-- The rest of every strict gang that lost a member to an eviction follows it. Returns how many.
local function evict_gangs(reason, transaction)
  local count, jobs = 0, strict
  for _, j in ipairs(jobs) do
    strict = {}
    for _, g in ipairs(j.groups) do
      for placement, index in gmatch(runs_of(g), '(!?%d+)@(%d+)') do
        local m = M[index]
        if sub(placement, 1, 1) ~= '!' and m then
          count = count + end_tasks(m, placement, '*', 'evicted', reason, transaction)
        end
      end
    end
  end
  strict = {}
  return count
end
