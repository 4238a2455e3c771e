-- Take back what a rehearsal counted; a gang that failed places nothing.
for i = 1, claims do
  local p, many = places[list[4 * i - 3]], counts and counts[i] or list[4 * i - 1]
  local q = MACHINE_WORDS * p
  machines[q - M_FIRST], machines[q - M_SECOND] = machines[q - M_FIRST] - need1 * many, machines[q - M_SECOND] - need2 * many
  for r = 3, R do others[p][r - 2] = others[p][r - 2] - need[r] * many end
  if verdicts then counts[i], verdicts[i] = 0, verdicts[i] or ABORTED end
end
left = unplaced
if verdicts then break end
