-- What may change of a job after its submission: its modify index, its dependencies, the totals of its groups.
-- links is "<*" (a user holds it), "<!REASON" (the gate of its scheduler holds it), ">!" (a user released it from that),
-- "<ID" (waits until that job finished), "<ID+" (until it ended in any state), ">*" (jobs wait for this one), in any
-- order. The key `waiters` has the jobs that wait for others, in the order of their submission: it is read when a job ends.

local function optional(g) return g[OPTIONAL] % REPLACED > 0 end

-- A change by a user: the modify index becomes the version of this call.
local function modify(j)
  j.modified = meta.version + 1
  touch_job(j)
end

-- Whether the caller read another modify index ("-": any).
local function overtaken(j, check) return check ~= '-' and j.modified ~= tonumber(check) end

-- Release or stop jobs that wait for jobs that ended in this call, or before it (`ended`). After all other changes of the
-- call, before its first write. Returns as lacking().
local function end_waits(ended)
  ended = ended or {}
  for i = 1, #changed_jobs do
    local j = changed_jobs[i]
    if j.links ~= '' and j.unplaced == 0 and j.placed == 0 and j.delayed == 0 and not j.was_complete then ended[#ended + 1] = j end
  end
  return ended[1] and waiters.end_waits(ended)
end

--@lazy waiters
--@const RELEASES 200
function waiters.has_link(j, link)
  for each in gmatch(j.links, '[<>][^<>]+') do
    if each == link then return true end
  end
  return false
end

function waiters.drop_link(j, link)
  local kept = {}
  for each in gmatch(j.links, '[<>][^<>]+') do
    if each ~= link then kept[#kept + 1] = each end
  end
  j.links = concat(kept)
  touch_job(j)
end

function waiters.waits(j) return find(j.links, '<', 1, true) ~= nil end

-- Release a job that nothing holds any more: it arrives at its schedulers as a new one.
function waiters.set_free(j)
  j.state, j.returned = ACTIVE, true
  touch_job(j)
end

-- Whether jobs wait for a job, or a release of these is under way.
function waiters.wait_for(j) return find(j.links, '>*', 1, true) ~= nil end

-- The member of `waiters` for a job that waits for another.
function waiters.member(awaited, j) return format('%s %014d %s', awaited, j.order, j.id) end

-- Whether a job without remaining tasks finished: no task of its present version failed, and it was not stopped.
function waiters.finished(j)
  if j.state == JOB_STOPPED or j.state == ABANDONED then return false end
  for _, g in ipairs(j.groups) do
    if g[FINISHED] + (g[OPTIONAL] >= REPLACED and g[FAILED] or 0) ~= g[TOTAL] then return false end
  end
  return true
end

-- Remove waiting copies; number: that of their group (copies.lua).
function waiters.remove_copies(j, number, g, tasks)
  for _, loss in ipairs(losses_of(g)) do loss.tasks = select(2, span_split(loss.tasks, tasks)) end
  g.waiting, g.first = select(2, span_split(waiting_of(g), tasks)), false
  local count = span_count(tasks)
  g[UNPLACED], g[TOTAL], j.unplaced = g[UNPLACED] - count, g[TOTAL] - count, j.unplaced - count
  touch_job(j)
  fact(format('unneeded %s %d %s', j.id, number, tasks))
end

-- Stop the unplaced tasks of a job, delayed ones too. Returns their number.
function waiters.stop_unplaced(j)
  for i, g in ipairs(j.copied and j.groups or {}) do
    if g[OPTIONAL] == COPIES and g[UNPLACED] > 0 then waiters.remove_copies(j, i - 1, g, waiting_of(g)) end
  end
  local count = j.unplaced + j.delayed
  for _, g in ipairs(j.groups) do
    if g[OPTIONAL] ~= COPIES then
      g[STOPPED] = g[STOPPED] + g[UNPLACED] + g[DELAYED]
      waiting_of(g)  -- merges the collected changes into the text
      g[UNPLACED], g.waiting, g.losses, g.loss_list, g[DELAYED] = 0, '-', false, false, 0
    end
  end
  j.unplaced, j.delayed = 0, 0
  return count
end

-- Stop a job with a dependency that can no longer be met; its record keeps the dependency.
local function give_up(j, awaited)
  local count = waiters.stop_unplaced(j)
  j.state = JOB_STOPPED
  touch_job(j)
  fact(format('stop %s %d after:%s', j.id, count, awaited))
end

do
  local met = waiters.met

  function waiters.write() in_chunks('ZREM', waiters_key, met) end

  -- A job that ended waits no longer, however it ended.
  local function leave_waits(j)
    for id in gmatch(j.links, '<(%w[^<>+]*)') do met[#met + 1] = waiters.member(id, j) end
  end

  -- End the wait of a job for one that ended.
  local function end_wait(other, j, well, todo)
    local link = '<' .. j.id
    waiters.drop_link(other, link .. '+')
    if well then waiters.drop_link(other, link) end
    if waiters.has_link(other, link) then
      give_up(other, j.id)
      todo[#todo + 1] = other
    elseif not waiters.waits(other) then
      waiters.set_free(other)
      fact('release ' .. other.id .. ' ' .. j.id)
    else
      fact('met ' .. other.id .. ' ' .. j.id)
    end
  end

  -- Release or stop at most `most` of the jobs that wait for one that ended. Returns their number.
  local function release_waiters(j, most, todo)
    local members = redis.call('ZRANGEBYLEX', waiters_key, '[' .. j.id .. ' ', '(' .. j.id .. '!', 'LIMIT', 0, most)
    local ids, well = {}, waiters.finished(j)
    for i, member in ipairs(members) do ids[i] = match(member, '%S+$') end
    load_jobs(ids)
    for i, id in ipairs(ids) do
      local other = J[id]
      met[#met + 1] = members[i]
      if other and other.state == HELD and (waiters.has_link(other, '<' .. j.id) or waiters.has_link(other, '<' .. j.id .. '+')) then
        end_wait(other, j, well, todo)
      end
    end
    if #ids < most then waiters.drop_link(j, '>*') end
    return #ids
  end

  -- Release or stop jobs that wait for jobs that ended, transitively: RELEASES of them, and housekeeping the others.
  function waiters.end_waits(todo)
    local left, i = RELEASES, 1
    while todo[i] do
      local j = todo[i]
      if not j.was_complete then leave_waits(j) end
      if left > 0 and waiters.wait_for(j) then left = left - release_waiters(j, left, todo) end
      if waiters.wait_for(j) then
        waiters.more = true
        chores[#chores + 1], chores[#chores + 2] = '0', j.id
      end
      i = i + 1
    end
    return left < RELEASES and lacking()
  end
end
