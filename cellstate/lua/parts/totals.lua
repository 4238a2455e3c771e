-- Sums of the cell that no lane has, in meta (cellstate/sums.py): tasks of all jobs there ever were, in total and by how
-- they ended; copies of tasks, the live and the placed ones (copies.lua); jobs by state, those that ended also when they are no longer kept. Of jobs with placed tasks jobs_halted are
-- held, and jobs_stopping are stopped or abandoned: neither count as running.

lanes.totals = { changed = {} }
do
  local totals = lanes.totals
  local STATE_FIELDS = { [JOB_STOPPED] = 'jobs_stopped', [ABANDONED] = 'jobs_abandoned' }

  local function add(field, change)
    if change ~= 0 then totals.changed[field] = (totals.changed[field] or 0) + change end
  end

  -- The field that counts a job in a state; nil for one that is pending or running.
  local function field_of(j, state, waiting)
    if state == HELD then return waiting > 0 and 'jobs_held' or nil end
    if state ~= DONE then return STATE_FIELDS[state] end
    for i = 1, #j.groups do
      if j.groups[i][FAILED] > 0 then return 'jobs_failed' end
    end
    return 'jobs_finished'
  end

  -- A new job.
  function totals.enter(j)
    for i = 1, #j.groups do add('tasks_total', j.groups[i][TOTAL]) end  -- there are no copies yet
    if j.state == HELD and j.unplaced > 0 then add('jobs_held', 1) end
  end

  -- What this call changes of a job.
  function totals.count(j)
    local waited, waits = 0, 0  -- without copies: a job whose copy alone waits is not held
    for i = 1, #j.groups do
      local g = j.groups[i]
      local was = g.was
      if g[OPTIONAL] == COPIES then
        add('copies', g[TOTAL] - was[1])
        add('copies_placed', g[PLACED] - was[5])
      else
        add('tasks_total', g[TOTAL] - was[1])
        waited, waits = waited + was[6], waits + g[UNPLACED] + g[DELAYED]
      end
      add('tasks_finished', g[FINISHED] - was[2])
      add('tasks_failed', g[FAILED] - was[3])
      add('tasks_stopped', g[STOPPED] - was[4])
    end
    local before, after = field_of(j, j.was_state, waited), field_of(j, j.state, waits)
    if before ~= after then
      if before then add(before, -1) end
      if after then add(after, 1) end
    end
    if before and j.was_placed > 0 then add(before == 'jobs_held' and 'jobs_halted' or 'jobs_stopping', -1) end
    if after and j.placed > 0 then add(after == 'jobs_held' and 'jobs_halted' or 'jobs_stopping', 1) end
  end

  function totals.write()
    for field, change in pairs(totals.changed) do redis.call('HINCRBY', meta_key, field, format('%d', change)) end
  end
end
