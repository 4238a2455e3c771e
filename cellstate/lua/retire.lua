-- Delete finished jobs that are older than the cell keeps them. Schedulers call this periodically.
--
-- KEYS   meta jobs specs jobnames done recent history results times
-- ARGV   now most
-- now: milliseconds since 1970 by the server's clock, read with TIME just before; most: entries examined in one call.
-- Reply  {number of deleted jobs}
-- Types  meta, jobs, specs, jobnames: hash; done: list of "id version"; times: list of "version ms", what the server's clock
--        showed at some versions, oldest first, some 64 of them at most
-- Rules  the age of a job counts from the first entry of times at or after the version in which it ended, so no
--        client's clock takes part (semantics 30). A clock behind the last entry counts as that entry. Begins with
--        a deletion (13).

--@include lists binary done

local counters = redis.call('HMGET', meta_key, 'version', 'keep_ms')
if not counters[1] then return { 0 } end  -- there is no such cell, and a write would create a part of one
local version, keep_ms = tonumber(counters[1]) or 0, tonumber(counters[2]) or 0
local marks, limit, outdated = redis.call('LRANGE', times_key, 0, -1), -1, 0
local last_version, last = match(marks[#marks] or '-1 0', '^(%S+) (%S+)$')
local time = math.max(tonumber(now), tonumber(last))
redis.call('HDEL', meta_key, '-')
if tonumber(last_version) < version and (#marks == 0 or time - last >= keep_ms / 64) then
  marks[#marks + 1] = format('%.0f %.0f', version, time)
  redis.call('RPUSH', times_key, marks[#marks])
end
for i = 1, #marks do
  local at, ms = match(marks[i], '^(%S+) (%S+)$')
  if tonumber(ms) <= time - keep_ms then limit, outdated = tonumber(at), i - 1 end
end
if outdated > 0 then redis.call('LTRIM', times_key, outdated, -1) end
local oldest = redis.call('LRANGE', done_key, 0, most - 1)
local old = {}
for i = 1, #oldest do
  if tonumber(match(oldest[i], '%S+$')) > limit then break end
  old[i] = oldest[i]
end
if #old == 0 then return { 0 } end
return { forget(old) }
