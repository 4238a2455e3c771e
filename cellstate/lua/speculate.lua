-- Request copies of running tasks: they wait in the group behind that of their originals (parts/copies.lua).
--
-- KEYS   meta machines runs placed jobs specs jobnames kinds lanes lanenames pools changes log done recent history results housekeeping waiters copied | box:* pending:* wake:* asleep owners
-- ARGV   dims tag at by job most cell_most | asked
-- asked: "machine placement task" each. most, cell_most: maximum number of copies of the job, and of the cell.
-- Reply  {"ok", place among the asked of each copy that was added…}, or {"keys", name…} with nothing done
-- Types  as in commit.lua
-- Rules  a job that ended leaves the list of those with copies; a task that does not run as this placement, or has a copy, is passed over (semantics 14, 41); begins with HSET (13)

--@include lists listing binary rows named counters
--@inner
--@include announce ranges records done pools lanes totals publish links placements losses copies tasks

local machines = {}
for i = fixed_args + 1, #ARGV do machines[#machines + 1] = match(ARGV[i], '^%d+') end
load_machines(machines)
load_jobs({ job })
local j = J[job]
if not j or j.was_complete then redis.call('HDEL', copied_key, job) end
if not j or j.state ~= ACTIVE then return { 'ok' } end
--@include ready

local left = tonumber(cell_most) - tonumber(redis.call('HGET', meta_key, 'copies') or 0)
local room = tonumber(most)
for _, g in ipairs(j.groups) do
  if g[OPTIONAL] == COPIES then room = room - g[TOTAL] end
end
left = math.min(left, room)

-- The group of the copies of a task that runs as this placement and has none; nil otherwise.
local function copies_of(m, placement, task)
  local from, _, id, group, tasks = find_run(m, placement, false)
  local number = from and id == job and group + 1
  local c = number and j.groups[number + 1]
  if not c or c[OPTIONAL] ~= COPIES or j.groups[number][OPTIONAL] == COPIES then return nil end
  if (span_split(tasks, task)) == '-' then return nil end
  for _, loss in ipairs(losses_of(c)) do
    if loss.tasks == task then return nil end
  end
  return c, number
end

local added, taken = 0, { 'ok' }
for i = fixed_args + 1, #ARGV do
  local index, placement, task = match(ARGV[i], '^(%d+) (%d+) (%d+)$')
  local m = M[index]
  local c, number
  if m and left > added then c, number = copies_of(m, placement, task) end
  if c then
    local original = j.groups[number]
    add_loss(losses_of(c), loss_of(task, 0, 0, placement, 1, index))
    c.losses, j.lossy, j.copied = true, true, true
    c.waiting, c.first = span_add(waiting_of(c), task), false
    c[TOTAL], c[UNPLACED], c[INDICES] = c[TOTAL] + 1, c[UNPLACED] + 1, original[INDICES]
    j.unplaced, j.returned, added = j.unplaced + 1, true, added + 1
    taken[added + 1] = i - fixed_args
    touch_job(j)
    fact(format('speculate %s %d %s', job, number, task))
  end
end
if added > 0 then publish(at, by, false) end
return taken
