-- Copies of slow tasks (semantics 41). A group with "optional" COPIES has the copies of the tasks of the group before it, each
-- under the index of its original, as a run of its own on another machine. Its total counts the copies that there are,
-- and no end counts in it. A copy that waits or runs has an entry among the losses of its group, "~task:0:0:placement:1:machine",
-- with the placement and the machine of its original. What ends either of the two ends or promotes the other in the same call:
-- the run of a promoted copy becomes one of the group of its original.
--@lazy far.copies
-- Read the machines of copies and of their originals.
function far.copies.load()
  local machines = {}
  for _, j in pairs(J) do
    for i, g in ipairs(j and j.copied and j.groups or {}) do
      if g[OPTIONAL] == COPIES then
        for _, loss in ipairs(losses_of(g)) do machines[#machines + 1] = loss.machine end
        for _, run in ipairs(far.runs(j, i - 1, g, math.huge)) do machines[#machines + 1] = run[2] end
      end
    end
  end
  if #machines > 0 then load_machines(machines) end
end

-- How many of the next copies of a group, count of them after those claimed before, come before the first whose original
-- is on this machine: copies are placed in the order of their tasks.
function far.copies.apart(g, m, claimed, count)
  local following = span_take(select(2, span_take(waiting_of(g), claimed)), count)
  for _, loss in ipairs(losses_of(g)) do
    if loss.machine == m.key and (span_split(following, loss.tasks)) ~= '-' then
      following = loss.low == 0 and '-' or (span_split(following, format('0-%d', loss.low - 1)))
    end
  end
  return span_count(following)
end

-- The placement and the machine of a copy; nil while it waits.
local function run_of(j, number, g, task)
  for _, run in ipairs(far.runs(j, number, g, math.huge)) do
    local m = M[run[2]]
    if select(5, find_run(m, run[1], false)) == task then return run[1], m end
  end
end

-- Find the copies of tasks that end. kept: the tasks that continue as their copies; runs: {task, placement, machine} of
-- those copies, or of the copies that end; waiting: the copies that wait. False when the tasks have no copies.
function far.copies.meet(j, group, g, gone, how, reason)
  local c = j.groups[group + 2]
  if g[OPTIONAL] == COPIES or not c or c[OPTIONAL] ~= COPIES then return false end
  local outrun = how == 'stopped' and reason == 'outrun'
  local ends = not outrun and (how == 'finished' or how == 'stopped' or j.state > HELD)
  local met, seen = { number = group + 1, kept = '-', runs = {}, waiting = '-', ends = ends }, {}
  losses.each(c, gone, function(_, task)
    if seen[task] then return end
    seen[task] = true
    local placement, m = run_of(j, group + 1, c, task)
    if not placement then
      met.waiting = span_add(met.waiting, task)
    else
      met.runs[#met.runs + 1] = { task, placement, m }
      if not ends then met.kept = span_add(met.kept, task) end
    end
  end)
  table.sort(met.runs, function(x, y) return tonumber(x[1]) < tonumber(y[1]) end)
  return (met.runs[1] or met.waiting ~= '-') and met
end

-- The run of a copy becomes that of its original, which ended in this way.
local function promote(j, number, task, placement, m, how)
  local g, original, own = j.groups[number + 1], j.groups[number], format('%d', number - 1)
  touch(m, far.copies.transaction)
  local from, to = find_run(m, placement, false)
  m.runs = sub(m.runs, 1, from - 1) .. ' ' .. placement .. ':' .. j.id .. ':' .. own .. ':' .. task .. sub(m.runs, to + 1)
  move_run(j, format('%d', number), g, placement .. '@' .. m.key, false, task, '-')
  move_run(j, own, original, placement .. '@' .. m.key, false, '-', task)
  losses.forget(j, g, task)
  g[PLACED], g[TOTAL], original[PLACED] = g[PLACED] - 1, g[TOTAL] - 1, original[PLACED] + 1
  fact(format('promote %s %s %s %s %s %s', placement, m.key, j.id, own, task, how))
end

-- After the end of tasks: promote their copies, or end them.
function far.copies.follow(j, met, how, reason)
  if met.waiting ~= '-' then waiters.remove_copies(j, met.number, j.groups[met.number + 1], met.waiting) end
  for _, run in ipairs(met.runs) do
    local task, placement, m = unpack(run)
    if met.ends then
      far.copies.end_tasks(m, placement, task, 'stopped', how == 'finished' and 'outrun' or reason, far.copies.transaction)
    else
      promote(j, met.number, task, placement, m, how)
    end
  end
end

-- A copy finishes before its original: that is stopped, and the copy promoted. Returns whether it was.
function far.copies.win(j, g, task)
  local stopped = 0
  for _, loss in ipairs(losses_of(g)) do
    local m = loss.tasks == task and M[loss.machine]
    if m then stopped = far.copies.end_tasks(m, loss.placement, task, 'stopped', 'outrun', far.copies.transaction) end
  end
  return stopped > 0
end
