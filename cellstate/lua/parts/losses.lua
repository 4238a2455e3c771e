-- Losses of tasks (semantics 26). A lost task is delayed: 1 s, doubled with each loss, at most 5 min; then housekeeping
-- queues it again. One that was lost more often than its budget allows fails, and any lost task of an at-most-once
-- group. A task that is retried used up its restarts on a machine: 30 s, doubled with each such failure, at most 1 h, and
-- no budget. A group's losses are "~tasks:count:due:placement" each, with ":failures:machine" behind it for tasks that were
-- retried; due: the server's time in ms, 0 once they wait; placement: the id they were lost with, 0 when a later placement
-- ended since; machine: of the last failure. A placement that ran for ten minutes resets both counts, however it ends.

--@lazy losses
--@const FIRST_MS 1000, LONGEST_MS 300000, PROVEN_MS 600000, RETRY_MS 30000, LONGEST_RETRY_MS 3600000
local proven_to = nil

-- Count tasks as delayed, or (below 0) as no longer delayed.
local function delay(j, g, count)
  j.delayed, g[DELAYED], j.lossy, g.losses = j.delayed + count, g[DELAYED] + count, true, true
end

local index_loss
do
  -- Note a loss of a long list under each block of 64 tasks that it has tasks of; under "wide" when there are more than 8. A call
  -- that ends thousands of tasks would otherwise examine every loss for each.
  function index_loss(list, loss)
    local first, last = floor(loss.low / 64), floor(loss.high / 64)
    local wide = last - first > 8
    for block = first, wide and first or last do
      local name = wide and 'wide' or block
      list.blocks[name] = list.blocks[name] or {}
      table.insert(list.blocks[name], loss)
    end
    list.indexed = list.indexed + 1
  end

  -- The losses that may have tasks from low to high; one of several blocks may occur in it again.
  local function losses_near(list, low, high)
    local first, last = floor(low / 64), floor(high / 64)
    if #list <= 32 or last - first > 8 then return list end
    list.blocks, list.indexed = list.blocks or { wide = {} }, list.indexed or 0
    for i = list.indexed + 1, #list do index_loss(list, list[i]) end
    local near = {}
    for block = first, last do answering(near, list.blocks[block] or {}) end
    return answering(near, list.blocks.wide)
  end

  -- Those of ascending spans that reach from low to high, as text.
  local function spans_near(cuts, low, high)
    local first, last = 1, #cuts + 1
    while first < last do
      local middle = floor((first + last) / 2)
      if cuts[middle][2] < low then first = middle + 1 else last = middle end
    end
    local near = {}
    while cuts[first] and cuts[first][1] <= high do
      near[#near + 1], first = cuts[first], first + 1
    end
    return spell(near)
  end

  -- Call f(loss, inside, rest) for each loss that has some of these tasks.
  function losses.each(g, gone, f)
    local list, left = losses_of(g), span_count(gone)
    local low, high = tonumber(match(gone, '^%d+')), tonumber(match(gone, '%d+$'))
    if #list == 0 or high < list.low or low > list.high then return end
    local cuts = find(gone, ',', 1, true) and spans(gone)
    for _, loss in ipairs(losses_near(list, low, high)) do
      if loss.low <= high and loss.high >= low and loss.tasks ~= '-' then
        local inside, rest = span_split(loss.tasks, cuts and spans_near(cuts, loss.low, loss.high) or gone)
        if inside ~= '-' then
          left = left - span_count(inside)
          f(loss, inside, rest)
          if left == 0 then return end
        end
      end
    end
  end
end

-- Whether a placement ran for ten minutes: "ticks" has the last placement id by the minute, newest first. In a call without
-- a time it is that of the newest.
local function proven(placement)
  if not proven_to then
    proven_to = 0
    local now = losses.lost_at > 0 and losses.lost_at
    for at, last in gmatch(redis.call('HGET', meta_key, 'ticks') or '', '(%d+):(%d+)') do
      now = now or tonumber(at)
      if tonumber(at) <= now - PROVEN_MS then
        proven_to = tonumber(last)
        break
      end
    end
  end
  return tonumber(placement) <= proven_to
end

-- Drop the losses of tasks that ended. Those of tasks that are placed again, or continue as their copies, after this
-- placement are kept for one that has no effect any more, unless it ran for ten minutes.
function losses.forget(j, g, gone, placement)
  local unlinked, kept, delayed = placement and not proven(placement), {}, 0
  losses.each(g, gone, function(loss, inside, rest)
    loss.tasks = rest
    if unlinked then
      kept[#kept + 1] = { loss, loss_of(inside, loss.count, loss.due, '0', loss.failures, loss.machine) }
    elseif loss.due > 0 then
      delayed = delayed - span_count(inside)
    end
  end)
  local list = g.loss_list
  for _, each in ipairs(kept) do
    local i = 1
    while list[i] ~= each[1] do i = i + 1 end
    table.insert(list, i + 1, each[2])
    if list.blocks then index_loss(list, each[2]) end
  end
  delay(j, g, delayed)
end

-- Count a loss of tasks, or with a machine a failure that is retried; returns those that are not placed again. The others
-- are delayed.
function losses.lose(j, g, gone, placement, retried_on)
  local kinds, known, fresh, delayed = {}, {}, gone, 0
  local function count(times, failures, machine, tasks)
    if tasks == '-' then return end
    local name = format('%d:%d:%s', times, failures, machine)
    local kind = known[name]
    if kind then
      kind.tasks = span_add(kind.tasks, tasks)
    else
      known[name] = { times = times, failures = failures, machine = machine, tasks = tasks }
      kinds[#kinds + 1] = known[name]
    end
  end
  losses.each(g, gone, function(loss, inside, rest)
    fresh = select(2, span_split(fresh, inside))
    local reset = proven(placement)
    local times, failures, machine = loss.count, loss.failures, loss.machine
    if reset then times, failures, machine = 0, 0, '' end
    if retried_on then
      count(times, failures + 1, retried_on, inside)
    else
      count(times + 1, failures, machine, inside)
    end
    if loss.due > 0 then delayed = delayed - span_count(inside) end
    loss.tasks = rest
  end)
  count(retried_on and 0 or 1, retried_on and 1 or 0, retried_on or '', fresh)
  table.sort(kinds, function(x, y)
    if x.times ~= y.times then return x.times < y.times end
    if x.failures ~= y.failures then return x.failures < y.failures end
    return (tonumber(x.machine) or -1) < (tonumber(y.machine) or -1)
  end)
  local spent, budget = '-', retried_on and math.huge or g[BUDGET]
  if g[BUDGET] == NEVER then budget = -1 end
  for _, kind in ipairs(kinds) do
    if kind.times > budget then
      spent = span_add(spent, kind.tasks)
    else
      local wait = math.min(LONGEST_MS, FIRST_MS * 2 ^ (kind.times - 1))
      if retried_on then wait = math.min(LONGEST_RETRY_MS, RETRY_MS * 2 ^ (kind.failures - 1)) end
      add_loss(losses_of(g), loss_of(kind.tasks, kind.times, losses.lost_at + wait, placement, kind.failures, kind.machine))
      delayed = delayed + span_count(kind.tasks)
    end
  end
  delay(j, g, delayed)
  return spent
end

-- Queue the delayed tasks of a group that are due at a time; returns them.
function losses.requeue(j, g, at_ms)
  local parts = {}
  for _, loss in ipairs(losses_of(g)) do
    if loss.due > 0 and loss.due <= at_ms and loss.tasks ~= '-' then
      parts[#parts + 1], loss.due = loss.tasks, 0
    end
  end
  if #parts == 0 then return '-' end
  local back = span_add('-', concat(parts, ','))
  local count = span_count(back)
  delay(j, g, -count)
  g.waiting = span_add(waiting_of(g), back)
  g.first = false
  g[UNPLACED], j.unplaced, j.returned = g[UNPLACED] + count, j.unplaced + count, true
  touch_job(j)
  return back
end

-- Apply the end of tasks that ended before they were marked as lost and were not placed since, however late the report is
-- (semantics 27). Returns their number.
function losses.end_late(j, machine, placement, part, how)
  local count = 0
  for number, g in ipairs(j.state <= HELD and j.groups or {}) do
    local list, taken = losses_of(g), '-'
    for _, loss in ipairs(list) do
      if loss.placement == placement and g[OPTIONAL] ~= COPIES then
        local inside = part == '*' and loss.tasks or (span_split(loss.tasks, part))
        if loss.due == 0 then inside = (span_split(waiting_of(g), inside)) end
        local n = span_count(inside)
        if n > 0 then
          if loss.due == 0 then
            g.waiting = select(2, span_split(waiting_of(g), inside))
            g[UNPLACED], j.unplaced = g[UNPLACED] - n, j.unplaced - n
          end
          taken, count = span_add(taken, inside), count + n
        end
      end
    end
    if taken ~= '-' then
      losses.forget(j, g, taken)
      local ended = how == 'finished' and FINISHED or FAILED
      g[ended] = g[ended] + span_count(taken)
      touch_job(j)
      fact(format('late %s %s %s %d %s %s', placement, machine, j.id, number - 1, taken, how))
    end
  end
  return count
end
