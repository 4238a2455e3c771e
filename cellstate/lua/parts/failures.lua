-- Write the conflicts to the log, with what judging them again takes: the group, and the number that a moved claim saw. A
-- failed gang adds its aborted claims, "!" after one that would have evicted; other verdicts are counted. Returns the
-- words of the outcome.
local function announce_failure(t)
  local words, aborted, rejected = {}, {}, 0
  for i = 1, t.n do
    local placed, v, group, count = t.placed[i], t.verdicts[i] or PLACED_OK, t.numbers[4 * i - 2], t.numbers[4 * i - 1]
    if v == MOVED or v == FULL then
      local seen = v == MOVED and format(' %d', t.numbers[4 * i]) or ''
      fact(format('conflict %s %s %d %d %d%s', t.id, t.keys[i], v, count - placed, group, seen))
    elseif v == ABORTED then
      local evicts = t.taken and t.taken[i] and '!' or ''
      aborted[#aborted + 1] = format('%s:%d:%d%s', t.keys[i], group, count, evicts)
    elseif v ~= PLACED_OK then
      rejected = rejected + 1
    end
    words[i] = format('%d %d', placed, v)
  end
  if aborted[1] then fact('aborted ' .. t.id .. ' ' .. concat(aborted, ' ')) end
  if rejected > 0 then fact(format('rejected %s %d', t.id, rejected)) end
  return concat(words, ',')
end
