-- Place `count` tasks on a machine: they are the first of those that wait, which must be one range, or all.
local tasks, number = waiting, machines[q - M_NUMBER] + 1
if count < left or first then
  if not first then
    first, last = match(waiting, '^(%d+)%-(%d+)$')
    if not first then
      fast = false
      break
    end
    first, last = tonumber(first), tonumber(last)
  end
  tasks = first < 10 and char(48 + first) or first < 100 and char(48 + floor(first / 10), 48 + first % 10) or format('%d', first)
  if count > 1 then tasks = tasks .. format('-%d', first + count - 1) end
  first = first + count
end
local stamp = machines[q]
if stamp == t then  -- a machine twice in a transaction: its number rises once
  fast = false
  break
end
if stamp == 0 then touched[#touched + 1] = p end
placements = placements + 1
machines[q], machines[q - M_NUMBER] = t, number
local placement = format('%d', placements)
local item, held = ' ' .. key .. ' ' .. tasks, holds and holds[p] and ' 1' or ' 0'
runs[p] = runs[p] .. ' ' .. placement .. ':' .. id .. ':0:' .. tasks
if items then
  -- Placements that follow one another on machines of one executor share a line of the log and a message; their ids follow the
  -- first one's.
  if mailbox ~= shape[S_MAILBOX] or held ~= hold then
    if n > 0 then
      --@include fast_path/send
      items, values, n = {}, {}, 0
    end
    mailbox, hold = shape[S_MAILBOX], held
  end
  n, total = n + 1, total + 1
  if n == 1 then
    item = ' ' .. placement .. item
    values[1] = item
  else
    values[n] = count == 1 and key or key .. ':' .. tasks
  end
  items[n], placings[total] = item, total == 1 and placement .. '@' .. key or '@' .. key
else
  item = ' ' .. placement .. item
  mailbox, placings, said = shape[S_MAILBOX], placement .. '@' .. key .. ',', 'places ' .. id .. ' 0 ' .. need_text .. item
  mailbox[#mailbox + 1] = lead .. held .. item
end
