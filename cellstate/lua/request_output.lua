-- Ask an agent for a part of the output of a task, by a message in its mailbox.
--
-- KEYS   meta box
-- ARGV   most message
-- message: "? request job group task stream start" (cellstate/tasks.py)
-- Reply  {"ok"}, or {"busy"} when the mailbox has `most` entries, or there is no such cell
-- Types  box: list, the mailbox of one executor
-- Rules  bounded; begins with RPUSH, which a full server refuses (semantics 13)

if redis.call('EXISTS', meta_key) == 0 or redis.call('LLEN', box_key) >= tonumber(most) then return { 'busy' } end
redis.call('RPUSH', box_key, message)
return { 'ok' }
