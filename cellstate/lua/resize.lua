-- Change the number of tasks of groups of a job. Added tasks wait under new indices; waiting tasks are removed first, then
-- running ones, newest index first, which are stopped and leave. A job with waiting tasks arrives at its schedulers as a
-- new one: a gang that fitted nowhere may fit now.
--
-- KEYS   meta machines runs placed jobs specs jobnames kinds lanes lanenames pools changes log done recent history results housekeeping waiters | box:* pending:* wake:* asleep owners
-- ARGV   dims tag at by job check step most stops spec | groups
-- A group is "number total seen placed older again". check: the modify index the caller read, "-" for any; step "1": a process
-- asks, no person, so the modify index stays; seen, placed: the total and the placed tasks the caller read, "-" for
-- any; total "-": the group is compared alone. older: groups whose tasks it takes over under their numbers, as 0,2, "-" for none: its new tasks are those that
-- these lose in the call, then `again`, ended tasks of theirs as ranges, and only then next ones. spec: what only schedulers and executors read, with the counts that an update aims at; empty: it stays. most: tasks of a gang without a minimum; stops: running tasks stopped in one call. With more to stop the totals are not reached yet,
-- and the call is repeated.
-- Reply  {"ok", record}, {"unknown"}, {"ended", record}, {"moved", record}, {"group", record} (one that is
--        not there), {"large", record} (more tasks, or indices given out, than are counted exactly; or a person's
--        resize lets all tasks need more of a resource), {"few", record} (more tasks have ended than are asked
--        for), {"many", record} (a gang of more than a transaction takes), or {"keys", name…}
-- Types  as in commit.lua
-- Rules  semantics 4; only people move the modify index; what is so already changes nothing (14); a call that only takes away passes when
--        the server is full (13)

--@include lists listing binary rows named counters
--@inner
--@include announce ranges records done pools lanes totals publish links placements losses copies tasks

load_jobs({ job })
local j = J[job]
if not j then return { 'unknown' } end
if j.state > HELD then return { 'ended', write_job(j) } end

local asked, takes, sum, differs, grows, changed = {}, {}, 0, false, false, false
for i = fixed_args + 1, #ARGV do
  local number, total, seen, placed, older, again = match(ARGV[i], '^(%d+) (%S+) (%S+) (%S+) (%S+) (%S+)$')
  local g = j.groups[number + 1]
  if not g or total ~= '-' and g[OPTIONAL] == COPIES then return { 'group', write_job(j) } end
  if total ~= '-' then
    asked[g] = tonumber(total)
    if older ~= '-' then takes[g] = { older, again } end
    differs = differs or asked[g] ~= g[TOTAL]
    grows = grows or asked[g] > g[TOTAL]
  end
  changed = changed or (seen ~= '-' and tonumber(seen) ~= g[TOTAL]) or (placed ~= '-' and tonumber(placed) ~= g[PLACED])
end
local same = not differs
differs = differs or spec ~= '' and redis.call('HGET', specs_key, job) ~= spec
if not differs then return { 'ok', write_job(j) } end
if changed or overtaken(j, check) then return { 'moved', write_job(j) } end
--@const MOST_TASKS 4294967296, MOST_TOGETHER 5000000000000000
-- Spans of running tasks of a group, {first, last, placement, machine}, newest index first: as many as hold the newest
-- `count` tasks. Runs are read by chunks of their last index, the newest chunk first; what lies below the last chunk read
-- may be mixed with runs that were not read.
local function newest_runs(number, g, count)
  local list, have, chunks = {}, 0, far.chunks(g)
  for at = #chunks, 1, -1 do
    if have >= count then break end
    local runs, machines = far.runs_in(j, number, g, chunks[at]), {}
    for i, run in ipairs(runs) do machines[i] = run[2] end
    load_machines(machines)
    for _, run in ipairs(runs) do
      local m = M[run[2]]
      local _, _, _, _, tasks = find_run(m, run[1], false)
      for _, s in ipairs(spans(tasks)) do list[#list + 1] = { s[1], s[2], run[1], m } end
    end
    have = 0
    for _, s in ipairs(list) do
      if s[2] >= chunks[at] * CHUNK then have = have + s[2] - s[1] + 1 end
    end
  end
  table.sort(list, function(x, y) return x[1] > y[1] end)
  return list
end

local newest, large, needs = {}, false, {}
for i, g in ipairs(j.groups) do
  local wanted = asked[g] or g[TOTAL]
  sum = sum + wanted
  large = large or sum >= MOST_TASKS or asked[g] and g[INDICES] + wanted - g[TOTAL] >= MOST_TASKS
  for d = 1, R do
    needs[d] = (needs[d] or 0) + g[NEED + d] * wanted
    large = large or grows and step ~= '1' and needs[d] > MOST_TOGETHER
  end
  if wanted < ended_of(g) then return { 'few', write_job(j) } end
  if wanted < g[TOTAL] - g[UNPLACED] then
    newest[g] = newest_runs(i - 1, g, math.min(g[TOTAL] - wanted - g[UNPLACED], tonumber(stops)))
  end
end
if large then return { 'large', write_job(j) } end
if is_whole(j) and sum > tonumber(most) then return { 'many', write_job(j) } end
--@include ready

local removed = {}  -- tasks that groups lose in this call
local function remove(g, tasks) removed[g] = removed[g] and span_add(removed[g], tasks) or tasks end

-- The numbers of up to `count` tasks that a group takes over. It takes no others while its older groups still lose some.
local function taken(g, count)
  local pool, first, loses, again = '-', g[INDICES], false, takes[g][2]
  for number in gmatch(takes[g][1], '%d+') do
    local h = j.groups[number + 1]
    if h then
      if removed[h] then pool = span_add(pool, removed[h]) end
      first = math.max(first, h[INDICES])
      loses = loses or asked[h] and asked[h] < h[TOTAL]
    end
  end
  g[INDICES] = first
  local tasks = span_take(pool, math.min(count, span_count(pool)))
  local rest = loses and 0 or count - span_count(tasks)
  if rest > 0 and again ~= '-' then
    local more = span_take(again, math.min(rest, span_count(again)))
    tasks, rest = span_add(tasks, more), rest - span_count(more)
  end
  if rest > 0 then
    tasks = span_add(tasks, rest == 1 and format('%d', first) or format('%d-%d', first, first + rest - 1))
    g[INDICES] = first + rest
  end
  return tasks
end

local function grow(g, count)
  if takes[g] then
    local tasks = taken(g, count)
    if tasks == '-' then return 0, '' end
    count = span_count(tasks)
    g.waiting = span_add(waiting_of(g), tasks)
    g[UNPLACED], j.unplaced, j.returned, g[TOTAL] = g[UNPLACED] + count, j.unplaced + count, true, g[TOTAL] + count
    return count, format(' %s %d', tasks, g[INDICES])
  end
  local indices = g[INDICES]
  local more = count == 1 and format('%d', indices) or format('%d-%d', indices, indices + count - 1)
  g.waiting = span_add(waiting_of(g), more)
  g[UNPLACED], j.unplaced, j.returned = g[UNPLACED] + count, j.unplaced + count, true
  g[TOTAL], g[INDICES] = g[TOTAL] + count, indices + count
  return count, ''
end

-- Stop a number of running tasks, newest index first. Each run is ended once.
local function stop_newest(g, count)
  local parts, order = {}, {}
  for _, s in ipairs(newest[g]) do
    if count == 0 then break end
    local n = math.min(count, s[2] - s[1] + 1)
    local part, placement = spell({ { s[2] - n + 1, s[2] } }), s[3]
    if not parts[placement] then order[#order + 1] = { placement, s[4] } end
    parts[placement] = parts[placement] and span_add(parts[placement], part) or part
    remove(g, part)
    count = count - n
  end
  for _, run in ipairs(order) do end_tasks(run[2], run[1], parts[run[1]], 'stopped', 'resize', 1) end
end

local left = tonumber(stops)
local function shrink(g, count)
  if count > g[UNPLACED] and g[DELAYED] > 0 then losses.requeue(j, g, math.huge) end
  local waiting = math.min(count, g[UNPLACED])
  if waiting > 0 then
    local rest, gone = span_take(waiting_of(g), g[UNPLACED] - waiting)
    if g.losses then losses.forget(j, g, gone) end
    remove(g, gone)
    g.waiting, g.first, g[UNPLACED] = rest, false, g[UNPLACED] - waiting
    j.unplaced, j.returned = j.unplaced - waiting, true
  end
  local stopped = math.min(count - waiting, left)
  if stopped > 0 then
    left = left - stopped
    stop_newest(g, stopped)
    g[STOPPED] = g[STOPPED] - stopped
  end
  g[TOTAL] = g[TOTAL] - waiting - stopped
  return waiting, stopped
end

if step == '1' then touch_job(j) else modify(j) end
for i, g in ipairs(j.groups) do
  local total, waiting, stopped, tasks = g[TOTAL], 0, 0, ''
  if asked[g] and asked[g] > total then
    local added
    added, tasks = grow(g, asked[g] - total)
    waiting = 0 - added
  elseif asked[g] and asked[g] < total then
    waiting, stopped = shrink(g, total - asked[g])
  end
  if waiting ~= 0 or stopped ~= 0 or same and asked[g] then
    fact(format('resize %s %d %d %d %d%s', job, i - 1, g[TOTAL], 0 - waiting, stopped, tasks))
  end
end
if #touched > 0 then meta.transactions = meta.transactions + 1 end
lack = end_waits()
if lack then return lack end
publish(at, by, not grows)
if spec ~= '' then redis.call('HSET', specs_key, job, spec) end
return { 'ok', write_job(j) }
