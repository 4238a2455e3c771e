-- Sums of the cell that no lane has, in meta (cellstate/pages.py): tasks of all jobs there ever were, in total and by how
-- they ended, and the delayed ones; copies of tasks, the live and the placed ones (copies.lua); jobs by state, those that ended also when they are no longer kept. Of jobs with placed tasks jobs_halted are
-- held, and jobs_stopping are stopped or abandoned: neither count as running.

lanes.totals = { changed = {} }
do
  local totals = lanes.totals
  local STATE_FIELDS = { [JOB_STOPPED] = 'jobs_stopped', [ABANDONED] = 'jobs_abandoned' }

  local function add(field, change)
    if change ~= 0 then totals.changed[field] = (totals.changed[field] or 0) + change end
  end

  -- Tasks of a group, the finished and the failed ones, as its job counts them (cellstate/pages.py, own_groups).
  local function own(j, optional, total, finished, failed)
    if optional < REPLACED then return total, finished, failed end
    local left = j.kind == 'service' and 0 or finished
    return total - failed - finished + left, left, 0
  end

  -- The field that counts a job in a state; nil for one that is pending or running.
  local function field_of(j, state, waiting)
    if state == HELD then return waiting > 0 and 'jobs_held' or nil end
    if state ~= DONE then return STATE_FIELDS[state] end
    for i = 1, #j.groups do
      if j.groups[i][FAILED] > 0 and j.groups[i][OPTIONAL] < REPLACED then return 'jobs_failed' end
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
      local total, finished, failed = own(j, g[OPTIONAL], g[TOTAL], g[FINISHED], g[FAILED])
      local had, had_finished, had_failed = own(j, was[7], was[1], was[2], was[3])
      if g[OPTIONAL] == COPIES then
        add('copies', g[TOTAL] - was[1])
        add('copies_placed', g[PLACED] - was[5])
      else
        add('tasks_total', total - had)
        add('tasks_delayed', g[DELAYED] - was[8])
        waited, waits = waited + was[6], waits + g[UNPLACED] + g[DELAYED]
      end
      add('tasks_finished', finished - had_finished)
      add('tasks_failed', failed - had_failed)
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
