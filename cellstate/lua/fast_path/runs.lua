-- Take the runs off their machines.
n, i = 0, fixed_args + 1
while fast and ARGV[i] do
  local how, tasks, of, time = match(ARGV[i], '^(%S+) (%S+) ([^%s@]+)@?(%d*)')
  local last_at = i + 2 * ARGV[i + 1]
  fast = how == 'finished' or how == 'failed'
  for k = i + 2, fast and last_at or 0, 2 do
    local p = places[ARGV[k]]
    local text = runs[p]
    local from, to = find(text, ' ' .. ARGV[k + 1] .. ':', 1, true)
    n = n + 1
    if from then
      local _, last, id, group, part = find(text, '^([^:]+):(%d+):(%S+)', to + 1)
      if group ~= '0' or tasks ~= '*' and tasks ~= part or of ~= '-' and of ~= id then
        fast = false
        break
      end
      runs[p] = from == 1 and sub(text, last + 1) or sub(text, 1, from - 1) .. sub(text, last + 1)
      owners[n], parts[n] = id, part
      if not jobs[id] then list[#list + 1], jobs[id] = id, true end
      if time ~= '' then
        fast = (times[id] or time) == time
        times[id] = time
      end
    elseif of == '-' then
      owners[n] = false
    else
      fast = false
      break
    end
  end
  i = last_at + 2
end
