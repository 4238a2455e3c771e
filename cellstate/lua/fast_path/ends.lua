-- End the tasks of each run in the amounts of its machine and the counts of its job.
for i = 1, #hosts do
  local id, count = owners[i], 0
  if id then
    local said, key, placement, part, j = says[i], hosts[i], placed_as[i], parts[i], jobs[id]
    local how, word = said.how, said.how == 'finished' and J_FINISHED or J_FAILED
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
    before[i], j[J_ENDED] = j[J_ENDED], i
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
    lines[#lines + 1] = how .. ' ' .. placement .. ' ' .. key .. ' ' .. id .. ' 0 ' .. part .. value .. ' ' .. said.reason
  end
  counts[i + 2] = count
end
