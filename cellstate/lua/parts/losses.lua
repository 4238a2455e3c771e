-- Losses of tasks (semantics 26). A lost task is delayed: 1 s, doubled with each loss, at most 5 min; then housekeeping
-- queues it again. One that was lost more often than its budget allows fails, and any lost task of an at-most-once
-- group. A group's losses are "~tasks:count:due:placement" each; due: the server's time in ms, 0 once they wait;
-- placement: the id they were lost with, 0 when a later placement ended since.

--@const FIRST_MS 1000, LONGEST_MS 300000, PROVEN_MS 600000
-- The server's time in ms; set by the scripts that may lose tasks.
local lost_at = 0
local proven_to = nil

local function losses_of(g)
  local list = {}
  for tasks, count, due, placement in gmatch(g.losses or '', '~([^:~]+):(%d+):(%d+):(%d+)') do
    list[#list + 1] = { tasks = tasks, count = tonumber(count), due = tonumber(due), placement = placement }
  end
  return list
end

local function keep_losses(j, g, list)
  local parts, delayed = {}, 0
  for i, loss in ipairs(list) do
    parts[i] = format('~%s:%d:%d:%s', loss.tasks, loss.count, loss.due, loss.placement)
    if loss.due > 0 then delayed = delayed + span_count(loss.tasks) end
  end
  g.losses = #parts > 0 and concat(parts)
  j.delayed, g[DELAYED], j.lossy = j.delayed + delayed - g[DELAYED], delayed, true
end

-- The losses of tasks that ended are forgotten; with `unlinked` they are kept, for a placement of no effect any more.
local function forget_losses(j, g, gone, unlinked)
  local kept = {}
  for _, loss in ipairs(losses_of(g)) do
    local inside, rest = span_split(loss.tasks, gone)
    if rest ~= '-' then kept[#kept + 1] = { tasks = rest, count = loss.count, due = loss.due, placement = loss.placement } end
    if inside ~= '-' and unlinked then
      kept[#kept + 1] = { tasks = inside, count = loss.count, due = loss.due, placement = '0' }
    end
  end
  keep_losses(j, g, kept)
end

-- Whether a placement ran for ten minutes: "ticks" tells the last placement id by the minute, newest first.
local function proven(placement)
  if not proven_to then
    proven_to = 0
    for at, last in gmatch(redis.call('HGET', meta_key, 'ticks') or '', '(%d+):(%d+)') do
      if tonumber(at) <= lost_at - PROVEN_MS then
        proven_to = tonumber(last)
        break
      end
    end
  end
  return tonumber(placement) <= proven_to
end

-- Count a loss of tasks; returns those that are not placed again. The others are delayed.
local function lose(j, g, gone, placement)
  local kept, counts, tasks_of, fresh = {}, {}, {}, gone
  local function count(n, tasks)
    if tasks == '-' then return end
    if not tasks_of[n] then counts[#counts + 1] = n end
    tasks_of[n] = tasks_of[n] and span_add(tasks_of[n], tasks) or tasks
  end
  for _, loss in ipairs(losses_of(g)) do
    local inside, rest = span_split(loss.tasks, gone)
    if inside ~= '-' then
      fresh = select(2, span_split(fresh, inside))
      count(proven(placement) and 1 or loss.count + 1, inside)
    end
    if rest ~= '-' then
      loss.tasks = rest
      kept[#kept + 1] = loss
    end
  end
  count(1, fresh)
  table.sort(counts)
  local spent, budget = '-', g[BUDGET] == NEVER and -1 or g[BUDGET]
  for _, n in ipairs(counts) do
    if n > budget then
      spent = span_add(spent, tasks_of[n])
    else
      local due = lost_at + math.min(LONGEST_MS, FIRST_MS * 2 ^ (n - 1))
      kept[#kept + 1] = { tasks = tasks_of[n], count = n, due = due, placement = placement }
    end
  end
  keep_losses(j, g, kept)
  return spent
end

-- Queue the delayed tasks of a group that are due at a time; returns them.
local function requeue(j, g, at_ms)
  local list, back = losses_of(g), '-'
  for _, loss in ipairs(list) do
    if loss.due > 0 and loss.due <= at_ms then
      back, loss.due = span_add(back, loss.tasks), 0
    end
  end
  if back == '-' then return back end
  local count = span_count(back)
  keep_losses(j, g, list)
  g[WAITING] = span_add(waiting_of(g), back)
  g.first = false
  g[UNPLACED], j.unplaced, j.returned = g[UNPLACED] + count, j.unplaced + count, true
  touch_job(j)
  return back
end

-- Tasks ended before they were taken for lost, and were not placed since: the end counts, however late it is told
-- (semantics 27). Returns how many.
local function end_late(j, machine, placement, part, how)
  local count = 0
  for number, g in ipairs(j.state <= HELD and j.groups or {}) do
    local list, taken = losses_of(g), '-'
    for _, loss in ipairs(list) do
      if loss.placement == placement then
        local inside = part == '*' and loss.tasks or (span_split(loss.tasks, part))
        if loss.due == 0 then inside = (span_split(waiting_of(g), inside)) end
        local n = span_count(inside)
        if n > 0 then
          if loss.due == 0 then
            g[WAITING] = select(2, span_split(waiting_of(g), inside))
            g[UNPLACED], j.unplaced = g[UNPLACED] - n, j.unplaced - n
          end
          taken, count = span_add(taken, inside), count + n
        end
      end
    end
    if taken ~= '-' then
      forget_losses(j, g, taken)
      local ended = how == 'finished' and FINISHED or FAILED
      g[ended] = g[ended] + span_count(taken)
      touch_job(j)
      fact(format('late %s %s %s %d %s %s', placement, machine, j.id, number - 1, taken, how))
    end
  end
  return count
end
