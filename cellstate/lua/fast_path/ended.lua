-- The record of a job afterwards; its ends in its lane; whether it has nothing left to do.
local record, placed, t_of = j[J_RECORD], j[J_PLACED], j[J_TALLY]
local l, over, text = t_of[T_LANE], placed + j[J_UNPLACED] == 0, ''
if placed < 0 then break end
if placed > 0 then
  text = ',' .. sub(record, j[J_RUNS] + 4, j[J_REST] - 1)
  local ended = j[J_ENDED]
  if find(text, ',@', 1, true) then  -- as `without` in parts/records.lua
    local gone, many, kept, id, after = {}, 0, {}, 0, false
    while ended do
      gone[tonumber(placed_as[ended])], many, ended = hosts[ended], many + 1, before[ended]
    end
    for first, index in gmatch(text, '(%d*)@(%d+)') do
      id = first == '' and id + 1 or tonumber(first)
      if gone[id] == index then
        many, after = many - 1, true
      else
        kept[#kept + 1] = (after and first == '' and format('%d', id) or first) .. '@' .. index
        after = false
      end
    end
    if many > 0 then break end
    text = concat(kept, ',') .. ','
  else
    while ended do
      local from, to = find(text, ',' .. placed_as[ended] .. '@' .. hosts[ended] .. ',', 1, true)
      if not from then break end
      text, ended = sub(text, 1, from) .. sub(text, to + 1), before[ended]
    end
    if ended then break end
    text = sub(text, 2)
  end
end
if not l[L_CHANGED] then changed_lanes[#changed_lanes + 1], l[L_CHANGED] = l, true end
t_of[T_TASKS] = t_of[T_TASKS] - j[J_WAS] + placed
if placed == 0 then t_of[T_JOBS] = t_of[T_JOBS] - 1 end
if over then
  t_of[T_LIVE] = t_of[T_LIVE] - 1
  lines[#lines + 1] = 'done ' .. id .. " DONE"
  done[#done + 1] = id
  if j[J_FAILED] > 0 then jobs_failed = jobs_failed + 1 end
end
rows_of_jobs[2 * t - 1], rows_of_jobs[2 * t] = id, sub(record, 1, 1) .. char(over and DONE or ACTIVE, j[J_BEGUN])
  .. sub(record, LEAVING_AT - 1, counts_at + 3) .. pack_numbers('<I4I4I4', placed, j[J_FINISHED], j[J_FAILED])
  .. sub(record, counts_at + 16, j[J_RUNS] - 1) .. pack_numbers('<I4c0', #text, text) .. sub(record, j[J_REST])
