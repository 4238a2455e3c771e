-- Add what the tallies of the call counted to its lanes. `placing`: placed tasks are wanted no more.
for i = 1, #changed_lanes do
  local l = changed_lanes[i]
  for _, t in pairs(l[L_TALLIES]) do
    local tasks, amounts = t[T_TASKS], t[T_NEED]
    for d = 1, R do
      local amount = tasks * amounts[d]
      l[L_HELD + d] = l[L_HELD + d] + amount
      if placing and not t[T_LARGE] then l[L_WANTED + d] = l[L_WANTED + d] - amount end
    end
    l[L_PENDING], l[L_LIVE] = l[L_PENDING] + t[T_PENDING], l[L_LIVE] + t[T_LIVE]
    l[L_LIVE + 1], l[L_LIVE + 2] = l[L_LIVE + 1] + tasks, l[L_LIVE + 2] + t[T_JOBS]
  end
end
