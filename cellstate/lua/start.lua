-- Return which runs may start. Read only: an executor asks for the runs that it holds (semantics 2).
--
-- KEYS   meta machines runs placed jobs settling
-- ARGV   dims | asked
-- Asked is "machine placement".
-- Reply  per run "go", "wait" (leaving tasks have not ended yet, or the cell was just restored) or "gone" (no such run)
-- Types  machines, runs, placed, jobs: hash; settling: string that expires
-- Rules  for a lease after a restore no task starts that was placed after the backup: disconnected executors may still run
--        other copies until their lease ends (semantics 16)

--@include lists listing binary ranges rows records placements

local machines = {}
for i = fixed_args + 1, #ARGV do machines[#machines + 1] = match(ARGV[i], '^(%d+)') end
load_machines(machines)
load_jobs_on(machines)

-- Whether everything on the machine, leaving or not, fits its capacity at once.
local function physically_fits(m)
  local sums = {}
  for d = 1, R do sums[d] = 0 end
  for id, group, tasks in gmatch(m.runs, ' !?%d+:([^:]+):(%d+):(%S+)') do
    local g, n = J[id] and J[id].groups[group + 1], span_count(tasks)
    for d = 1, R do sums[d] = sums[d] + (g and g[NEED + d] * n or 0) end
  end
  for d = 1, R do
    if m[CAPACITY + d] < sums[d] then return false end
  end
  return true
end

-- Whether one of these tasks is still leaving another machine.
local function still_elsewhere(j, group, tasks)
  for _, p in ipairs(far.leaving(j, group, j.groups[group + 1])) do
    load_machines({ p[2] })
    local _, _, _, _, leaving = find_run(M[p[2]], p[1], true)
    if leaving and (span_split(tasks, leaving)) ~= '-' then return true end
  end
  return false
end

local settling = tonumber(redis.call('GET', settling_key) or '')
local answers = {}
for i = fixed_args + 1, #ARGV do
  local index, placement = match(ARGV[i], '^(%d+) (%d+)$')
  local m = M[index]
  local from, _, id, group, tasks
  if m then from, _, id, group, tasks = find_run(m, placement, false) end
  if not from then
    answers[#answers + 1] = 'gone'
  elseif settling and tonumber(placement) > settling then
    answers[#answers + 1] = 'wait'
  elseif find(m.runs, '!', 1, true) and not physically_fits(m) then
    answers[#answers + 1] = 'wait'
  else
    answers[#answers + 1] = still_elsewhere(J[id], group, tasks) and 'wait' or 'go'
  end
end
return answers
