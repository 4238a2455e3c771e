-- A worker of a MapReduce job asks what to do: the maps first and, when all are done, the reduces.
--
-- KEYS   runs shards
-- ARGV   dims job machine placement task maps reduces expire_ms
-- maps, reduces: how many shards each phase has; they count when the job's first worker asks.
-- Reply  {"map", shard} or {"reduce", shard}; {"wait"} while others work on what is left of the phase; {"done"};
--        {"failed", shard, phase} when that shard was tried too often; {"fenced"} when the worker's placement is
--        no longer live
-- Types  runs: hash; shards: hash of the job that expires (parts/shards.lua)
-- Rules  a shard belongs to a placement: that of a worker evicted, lost or ended goes back (semantics 1); asking
--        again gives the same shard (14); begins with HSET (13)

--@include lists binary words ranges shards

local texts = {}
local function is_live(index, run, number)
  if texts[index] == nil then texts[index] = redis.call('HGET', runs_key, index) or '' end
  local _, _, id, _, tasks = find_run({ runs = texts[index] }, run, false)
  return id == job and (span_split(tasks, number)) ~= '-'
end

if not is_live(machine, placement, task) then return { 'fenced' } end
if failed then
  local phase, shard = match(failed, '^(%a+) (%d+)$')
  return { 'failed', shard, phase }
end
local whole = function(total) return total .. ' ' .. (total == '1' and '0' or '0-' .. (total - 1)) .. ' 0 0' end
local maps_of, reduces_of = read_phase(table_of[1] or whole(maps)), read_phase(table_of[2] or whole(reduces))
local what, p = 'map', maps_of
if p.done == p.total then what, p = 'reduce', reduces_of end
if p.done == p.total then return { 'done' } end
local _, _, mine = find_held(machine, placement, task)
if mine then return { what, mine } end

-- What is held is looked at only when nothing else is left.
if p.waiting == '-' then
  held = string.gsub(held, ' (%d+):(%d+):(%d+):(%d+)', function(index, run, number, shard)
    if is_live(index, run, number) then return nil end
    p.waiting = span_add(p.waiting, shard)
    return ''
  end)
end
if p.waiting == '-' then return { 'wait' } end
local shard
shard, p.waiting = span_take(p.waiting, 1)
held = held .. ' ' .. machine .. ':' .. placement .. ':' .. task .. ':' .. shard
redis.call('HSET', shards_key, 'map', write_phase(maps_of), 'reduce', write_phase(reduces_of), 'held', held)
redis.call('PEXPIRE', shards_key, expire_ms)
return { what, shard }
