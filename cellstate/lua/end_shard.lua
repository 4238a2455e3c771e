-- A worker of a MapReduce job is done with its shard, or failed on it. With the last reduce, what was learnt
-- of how long activities take is kept under the job's name.
--
-- KEYS   shards durations
-- ARGV   dims machine placement task phase shard how milliseconds most expire_ms learnt_ms
-- how: done, failed; most: so many failures of one shard and the job gives up.
-- Reply  {"ok"}, or {"stale"} with nothing done: the worker does not hold this shard (any more)
-- Types  shards: hash of the job that expires (parts/shards.lua); durations: string of the job's name that
--        expires, "runs map reduce" with the mean milliseconds of a map and a reduce; the last ten runs weigh most
-- Rules  a shard is finished exactly once, by who holds it (semantics 1); the same again is ok (14); begins
--        with HSET (13)

--@include lists binary words ranges shards

local field = sub(phase, 1, 1) .. shard
local p = read_phase(table_of[phase == 'map' and 1 or 2] or '0 - 0 0')
local from, to, mine = find_held(machine, placement, task)
local mark = placement .. '-' .. task
if mine ~= shard or p.done == p.total or (phase == 'reduce' and match(table_of[1], '^(%d+) %S+ %1 ') == nil) then
  return { redis.call('HGET', shards_key, field) == mark and how == 'done' and 'ok' or 'stale' }
end

held = sub(held, 1, from - 1) .. sub(held, to + 1)
if how == 'failed' then
  local known = ' ' .. phase .. ':' .. shard .. ':'
  local at, stop = find(tries, known, 1, true)
  local count = at and match(tries, '^%d+', stop + 1) or '0'
  tries = (at and (sub(tries, 1, at - 1) .. sub(tries, stop + #count + 1)) or tries) .. known .. (count + 1)
  p.waiting = span_add(p.waiting, shard)
  redis.call('HSET', shards_key, phase, write_phase(p), 'held', held, 'tries', tries)
  if count + 1 >= tonumber(most) then redis.call('HSET', shards_key, 'failed', phase .. ' ' .. shard) end
else
  p.done, p.ms = p.done + 1, p.ms + milliseconds
  redis.call('HSET', shards_key, phase, write_phase(p), 'held', held, field, mark)
end
redis.call('PEXPIRE', shards_key, expire_ms)

if phase == 'reduce' and p.done == p.total then
  local maps = read_phase(table_of[1])
  local runs, map, reduce = match(redis.call('GET', durations_key) or '0 0 0', '^(%d+) (%d+) (%d+)$')
  local weight = math.min(runs, 9)
  local function mean(before, now) return string.format('%.0f', floor((before * weight + floor(now.ms / now.total)) / (weight + 1))) end
  local learnt = (runs + 1) .. ' ' .. mean(map, maps) .. ' ' .. mean(reduce, p)
  redis.call('SET', durations_key, learnt, 'PX', learnt_ms)
end
return { 'ok' }
