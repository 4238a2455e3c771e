-- Schedulers whose blocked jobs wait for a placement of this call are notified, and executors are sent their messages.
local asleep = names and placed_jobs > 0 and redis.call('HGETALL', named.asleep)
for i = 1, asleep and #asleep or 0, 2 do
  local key, awaited = named['wake:' .. asleep[i]], ' ' .. asleep[i + 1] .. ' '
  local found = find(awaited, ' * ', 1, true)
  for k = 1, found and 0 or #names do found = found or find(awaited, ' ' .. names[k] .. ' ', 1, true) end
  if key and found and redis.call('LLEN', key) == 0 then redis.call('RPUSH', key, '1') end
end
for _, messages in pairs(mailboxes) do
  -- As in parts/announce.lua: a mailbox that nobody reads keeps a mark alone.
  local text = messages[2] and concat(messages, '\n') or messages[1]
  if text and redis.call('RPUSH', messages.key, text) > MAILBOX_MOST then
    redis.call('DEL', messages.key)
    redis.call('RPUSH', messages.key, format('! %d', version))
  end
end
