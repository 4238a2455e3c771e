-- How many of a claim's tasks a machine has room for; its verdict when those are not all.
local fits, verdict, free1, free2 = count, FULL, shape[S_CAPACITY + 1] - used1, shape[S_CAPACITY + 2] - used2
if free1 < need1 * fits then fits = floor(free1 / need1) end
if free2 < need2 * fits then fits = floor(free2 / need2) end
local over = free1 < 0 or free2 < 0
for r = 3, R do
  local free = shape[S_CAPACITY + r] - others[p][r - 2]
  if free < need[r] * fits then fits = floor(free / need[r]) end
  over = over or free < 0
end
if over then
  fast = false
  break
end
if detection == 1 then
  if diverged == nil then
    local stood, known = tonumber(counters[1]), tonumber(since)
    diverged = known > stood
    if not diverged and known > low then
      diverged = sub(redis.call('LINDEX', changes_key, known - low - 1) or '', 1, 10) ~= since_tag
    end
  end
  if diverged or seen ~= unpack_numbers('<i8', rows[p], 9) then fits, verdict = 0, MOVED end  -- own transactions of this call do not count
end
if fits < count then
  if not verdicts then
    verdicts, claimed = {}, count
    if not counts then
      counts = {}
      for k = 1, i - 1 do counts[k] = list[4 * k - 1] end
    end
  end
  verdicts[i], count = verdict, pass == 2 and mode == 1 and 0 or fits
end
