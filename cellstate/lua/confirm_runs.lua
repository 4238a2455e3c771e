-- Record that an executor runs only tasks that the cell lists, after a cut of the history (report_cut.lua).
--
-- KEYS   meta settling unsettled
-- ARGV   member
-- Reply  {"ok", number of executors that have not confirmed}
-- Types  settling: string; unsettled: hash, executor → 1; both expire
-- Rules  semantics 16: with the last one tasks may start; a repeated call changes nothing (14); begins with a
--        deletion (13)

local confirmed = redis.call('HDEL', unsettled_key, member)
local left = redis.call('HLEN', unsettled_key)
if confirmed == 1 and left == 0 then redis.call('DEL', settling_key) end
return { 'ok', left }
