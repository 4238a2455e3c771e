-- An executor acknowledges the messages that it read last, and reads the next ones.
--
-- KEYS   meta box
-- ARGV   count last most
-- count: how many messages it read, from the first on, 0 for none; last: the last of them.
-- Reply  messages, oldest first, at most so many; they stay until they are acknowledged
-- Types  box: list
-- Rules  a message is removed only when its reader says that it has it (semantics 25). No two messages of a mailbox are
--        alike, so a call sent again finds another message at that place and removes nothing (14). Begins with LTRIM (13).

local from = tonumber(count)
local found = redis.call('LRANGE', box_key, from > 0 and from - 1 or 0, from + most - 1)
if from == 0 then return found end
if found[1] ~= last then return redis.call('LRANGE', box_key, 0, most - 1) end
redis.call('LTRIM', box_key, from, -1)
table.remove(found, 1)
return found
