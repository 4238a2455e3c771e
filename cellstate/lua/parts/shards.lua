-- The shards of a MapReduce job, kept in one hash:
--   map, reduce  "total waiting done milliseconds"; waiting: ranges nobody works on; milliseconds: of all done
--   held         " machine:placement:task:shard" per worker, of the phase that runs
--   tries        " phase:shard:failures"; failed: "phase shard", tried too often
--   m0 r0 …      who finished that shard, "placement-task"

local table_of = redis.call('HMGET', shards_key, 'map', 'reduce', 'held', 'tries', 'failed')
local held, tries, failed = table_of[3] or '', table_of[4] or '', table_of[5]

local function read_phase(text)
  local p = {}
  p.total, p.waiting, p.done, p.ms = match(text, '^(%d+) (%S+) (%d+) (%d+)$')
  p.total, p.done, p.ms = tonumber(p.total), tonumber(p.done), tonumber(p.ms)
  return p
end

local function write_phase(p)
  return p.total .. ' ' .. p.waiting .. ' ' .. p.done .. ' ' .. string.format('%.0f', p.ms)
end

-- The position and the shard of what a worker holds; nil when it holds none.
local function find_held(machine, placement, task)
  local who = ' ' .. machine .. ':' .. placement .. ':' .. task .. ':'
  local from, to = find(held, who, 1, true)
  if not from then return nil end
  local shard = match(held, '^%d+', to + 1)
  return from, to + #shard, shard
end
