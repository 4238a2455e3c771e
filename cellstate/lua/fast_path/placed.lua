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
if names then names[placed_jobs] = name ~= '' and name or id end
local now = sub(record, 1, counts_at - 1) .. pack_numbers('<I4I4', left, placed + count)
  .. sub(record, counts_at + 8, at_runs - #waiting - 5) .. pack_numbers('<I4c0I4c0', #rest, rest, #placings, placings) .. sub(record, at_rest)
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
  gone[#gone + 1] = format('%02x', bucket) .. id
end
