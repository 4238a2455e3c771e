-- Of a job `count` tasks were placed, `left` wait: its record, its lane, its place in the queue.
local rest, l = '-', tally[T_LANE]
if items then
  --@include fast_path/send
  placings = concat(placings, ',') .. ','
end
lines[#lines + 1] = said
if left > 0 then rest = first == last and format('%d', first) or format('%d-%d', first, last) end
placings = sub(record, at_runs + 4, at_rest - 1) .. placings
if #placings > 65535 then break end
placed_jobs = placed_jobs + 1
if names then names[placed_jobs] = kind > name + 1 and sub(record, name + 1, kind - 1) or id end
local now = sub(record, 1, group + COUNTS_AT + 1)
  .. char(left, placed + count, finished, failed, stopped, 0, low_budget, high_budget, optional, #rest, 0, 0, 0) .. rest
  .. char(#placings % 256, floor(#placings / 256), 0, 0) .. placings .. sub(record, at_rest)
if placed_jobs == 1 then
  jobs = { id, now }
else
  jobs[2 * placed_jobs - 1], jobs[2 * placed_jobs] = id, now
end
if not l[L_CHANGED] then changed_lanes[#changed_lanes + 1], l[L_CHANGED] = l, true end
tally[T_TASKS] = tally[T_TASKS] + count
if placed == 0 then tally[T_JOBS] = tally[T_JOBS] + 1 end
if tally[T_LARGE] then
  for r = 1, R do
    local before, after = need[r] * unplaced, need[r] * left
    l[L_WANTED + r] = l[L_WANTED + r] + math.min(MOST_WANTED, after) - math.min(MOST_WANTED, before)
  end
end
if left == 0 then
  local gone = l[L_KIND][K_GONE]
  tally[T_PENDING] = tally[T_PENDING] - 1
  gone[#gone + 1] = sub(record, LINKS_AT + 5, LINKS_AT + 6) .. id
end
