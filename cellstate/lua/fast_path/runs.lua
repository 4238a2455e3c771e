-- Take the runs off their machines.
for i = 1, #hosts do
  local p, said = places[hosts[i]], says[i]
  local of, time, text = said.job, said.time, runs[p]
  fast = said.how == 'finished' or said.how == 'failed'
  if not fast then break end
  local from, to = find(text, ' ' .. placed_as[i] .. ':', 1, true)
  if from then
    local _, last, id, group, part = find(text, '^([^:]+):(%d+):(%S+)', to + 1)
    fast = group == '0' and (said.tasks == '*' or said.tasks == part) and (not of or of == id) and (not time or (times[id] or time) == time)
    if not fast then break end
    runs[p] = from == 1 and sub(text, last + 1) or sub(text, 1, from - 1) .. sub(text, last + 1)
    owners[i], parts[i] = id, part
    if not jobs[id] then list[#list + 1], jobs[id] = id, true end
    if time then times[id] = time end
  elseif not of then
    owners[i] = false
  else
    fast = false
    break
  end
end
