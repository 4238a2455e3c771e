-- End the tasks of each run in the amounts of its machine and the counts of its job.
n, i = 0, fixed_args + 1
while ARGV[i] do
  local how, reason = match(ARGV[i], '^(%S+) %S+ %S+( .*)$')
  local last_at, word = i + 2 * ARGV[i + 1], how == 'finished' and J_FINISHED or J_FAILED
  for at = i + 2, last_at, 2 do
    n = n + 1
    local id, count = owners[n], 0
    if id then
      local key, placement, part, j = ARGV[at], ARGV[at + 1], parts[n], jobs[id]
      local p, amounts = places[key], j[J_TALLY][T_NEED]
      local q = MACHINE_WORDS * p
      local number = machines[q - M_NUMBER]
      count = sizes[part]
      if not count then
        count = 0
        for first, last in gmatch(part, '(%d+)%-?(%d*)') do count = count + (last == '' and 1 or last - first + 1) end
        sizes[part] = count
      end
      j[J_PLACED], j[word] = j[J_PLACED] - count, j[word] + count
      if word == J_FAILED then
        j[J_BEGUN], tasks_failed = 1, tasks_failed + count
      else
        tasks_finished = tasks_finished + count
      end
      ats[n], before[n], j[J_ENDED] = at, j[J_ENDED], n
      local now1, now2, value = machines[q - M_FIRST] - amounts[1] * count, machines[q - M_SECOND] - amounts[2] * count, nil
      if machines[q] == 0 then
        number = number + 1
        touched[#touched + 1], machines[q], machines[q - M_NUMBER] = p, 1, number
      end
      machines[q - M_FIRST], machines[q - M_SECOND] = now1, now2
      if R > 2 then
        for r = 3, R do others[p][r - 2] = others[p][r - 2] - amounts[r] * count end
        value = format(VALUES, number, now1, now2, unpack(others[p], 1, R - 2))
      else
        value = format(VALUES, number, now1, now2)
      end
      lines[#lines + 1] = how .. ' ' .. placement .. ' ' .. key .. ' ' .. id .. ' 0 ' .. part .. value .. reason
    end
    counts[n + 2] = count
  end
  i = last_at + 2
end
