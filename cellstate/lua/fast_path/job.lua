-- Transaction `t` of the fast path: its job's id and record, and where its claims begin. Verdicts that it knows are placed,
-- full, moved and aborted; when there is another one the fast path ends.
local resources, _, _, _, _, of_groups, more = byte(record, 1, SIZE_AT + 1)
if resources ~= R or of_groups ~= 1 or more ~= 0 then break end
--@simple
local a_runs, b_runs, c_runs = byte(record, at_runs, at_runs + 2)
local at_rest = at_runs + 4 + a_runs + 256 * b_runs
if state + leaving + delayed + c_runs ~= 0 or links ~= '' or indices > 255 or at_rest + 3 ~= #record then break end
--@include fast_path/tally
if not tally then break end
if bytes ~= need_bytes then
  need_bytes, need_text = bytes, R == 2 and format('%d,%d', need1, need2) or concat(need, ',', 1, R)
end
if duration ~= last_duration then last_duration, duration_text = duration, format('%d', duration) end

local lead, claims, from = '+ ' .. id .. ' 0 ' .. duration_text, numbers_of_claims[t], begins[t]
local mode, detection = byte(body, from - 6, from - 5)
local machine, of, count, seen = unpack_numbers('<i4i4i8i8', body, from)
local list, items, values, placings, verdicts, counts = nil, nil, nil, '', nil, nil
local tree = divided and lane_trees[lane]
local left, first, last = unplaced, nil, nil
local n, total, said, mailbox, hold, claimed = 0, 0, nil, nil, nil, nil
if claims > 1 then
  layouts = layouts or {}
  layouts[claims] = layouts[claims] or '<' .. string.rep('i4i4i8i8', claims)
  list, items, values, placings = { unpack_numbers(layouts[claims], body, from) }, {}, {}, {}
end
if gang > 0 then
  local sum = count
  for i = 2, claims do sum = sum + list[4 * i - 1] end
  local least = gang_min
  local lacks = least > 0 and math.min(least - placed, unplaced) or optional == 0 and unplaced or 0
  if (mode ~= 1 or sum < lacks) and (least == 0 or lacks > 0) then break end
end
fast = true
-- A gang of several claims has a rehearsal (pass 1), which counts only what there is room for.
for pass = claims > 1 and mode == 1 and 1 or 2, 2 do
  for i = 1, claims do
    if list then machine, of, count, seen = list[4 * i - 3], list[4 * i - 2], list[4 * i - 1], list[4 * i] end
    local p = places[machine]
    local key = keys[p]
    local q = MACHINE_WORDS * p
    local shape, used1, used2 = machines[q - M_SHAPE], machines[q - M_FIRST], machines[q - M_SECOND]
    if of ~= 0 or count > left or count < 1 or shape[S_STATE] ~= UP or tree and trees[p] ~= tree or commands == 1 and shape[S_EXECUTOR] % 2 == 1 then
      fast = false
      break
    end
    local now1, now2 = used1 + need1 * count, used2 + need2 * count
    if now1 > shape[S_CAPACITY + 1] or now2 > shape[S_CAPACITY + 2] or detection == 1 or R > 2 then
      --@include fast_path/fit
      now1, now2 = used1 + need1 * count, used2 + need2 * count
    end
    if counts then counts[i] = count end
    if count > 0 then
      machines[q - M_FIRST], machines[q - M_SECOND] = now1, now2
      for r = 3, R do others[p][r - 2] = others[p][r - 2] + need[r] * count end
      if pass == 2 then
        --@include fast_path/run
      end
      left = left - count
    end
  end
  if not fast then break end
  if pass == 1 then
    --@include fast_path/rehearsed
  end
end
if not fast then break end
fast = false
local outcome = '+'
if verdicts then
  local words, aborted = {}, nil
  for i = 1, claims do
    local verdict, many, asked = verdicts[i], counts[i], list and list[4 * i - 1] or claimed
    local key = keys[places[list and list[4 * i - 3] or machine]]
    if verdict == FULL then
      lines[#lines + 1] = format('conflict %s %s %d %d 0', id, key, FULL, asked - many)
    elseif verdict == MOVED then
      lines[#lines + 1] = format('conflict %s %s %d %d 0 %d', id, key, MOVED, asked - many, list and list[4 * i] or seen)
    elseif verdict == ABORTED then
      aborted = aborted or { 'aborted ' .. id }
      aborted[#aborted + 1] = format('%s:0:%d', key, asked)
    end
    words[i] = format('%d %d', many, verdict or PLACED_OK)
  end
  if aborted then lines[#lines + 1] = concat(aborted, ' ') end
  outcome = concat(words, ',')
end
count = unplaced - left
if outcomes then outcomes[t] = outcome else alone = outcome end
if count > 0 then
  --@include fast_path/placed
end
fast = true
