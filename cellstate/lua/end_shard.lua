-- Record that a worker of a MapReduce job finished its shard or failed on it. With the last reduce, the mean durations of
-- shards are stored under the job's name.
--
-- KEYS   meta shards durations
-- ARGV   dims machine placement task phase shard how milliseconds level at most wait_ms expire_ms learnt_ms
-- how: done, failed; level: of the shard's locality, for the worker's machine, "": none; at: when it failed (ms, the store's clock); most: number of failures of one shard after which the
-- job fails; wait_ms: delay of a shard after its first failure, doubled after each further one.
-- Reply  {"ok"}, or {"stale"} with nothing done: the worker does not hold this shard (any more)
-- Types  shards: hash of the job that expires (parts/shards.lua); durations: string of the job's name that
--        expires, "runs map reduce" with the mean milliseconds of a map and a reduce; the last ten runs weigh most
-- Rules  a failure is the machine's until another machine fails on the same shard: from then on it is the shard's, and
--        the first machine is not blamed for it any more; a shard is finished exactly once, by the worker that holds it (semantics 1); a repeated call is ok (14); begins
--        with HSET (13)

--@include lists listing binary ranges rows records shards

-- The sum of a phase stays exact (semantics 12).
--@const MOST_MS 5000000000000000

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
  local count, where, others = 0, '', ''
  for a, b, times, not_before, machines_of in gmatch(failures, FAILURE) do
    if a == phase and b == shard then
      count, where = tonumber(times), machines_of
    else
      others = others .. ' ' .. concat({ a, b, times, not_before, machines_of }, ':')
    end
  end
  if where == '' or where == machine then
    machines = counted(machines, machine, failed_on(machine) + 1)
  elseif not find(where, ',', 1, true) then
    machines = counted(machines, where, math.max(0, failed_on(where) - count))
  end
  if not find(',' .. where .. ',', ',' .. machine .. ',', 1, true) then
    where = (where == '' and '' or where .. ',') .. machine
  end
  local not_before = format('%.0f', at + wait_ms * 2 ^ count)
  failures = others .. known .. (count + 1) .. ':' .. not_before .. ':' .. where
  p.waiting = span_add(p.waiting, shard)
  redis.call('HSET', shards_key, phase, write_phase(p), 'held', held, 'failures', failures,
    'machines', machines)
  if count + 1 >= tonumber(most) then redis.call('HSET', shards_key, 'failed', phase .. ' ' .. shard) end
else
  p.done, p.ms = p.done + 1, math.min(p.ms + milliseconds, MOST_MS)
  redis.call('HSET', shards_key, phase, write_phase(p), 'held', held, field, mark)
  if machines ~= '' then redis.call('HSET', shards_key, 'machines', counted(machines, machine, 0)) end
  if level ~= '' then
    redis.call('HSET', shards_key, 'levels', counted(levels, level, count_of(levels, level) + 1))
  end
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
