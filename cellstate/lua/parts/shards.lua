-- The shards of a MapReduce job, kept in one hash:
--   map, reduce  "total waiting done milliseconds"; waiting: ranges without a worker; milliseconds: of all done
--   held         " machine:placement:task:shard" per worker, of the phase that runs
--   failures     " phase:shard:count:until:machine,machine" per failed shard: number of failures, time (ms) of the
--                next attempt, machines; failed: "phase shard" without attempts left
--   machines     " machine:count": number of shards that failed there in a row
--   levels       " level:count": number of finished maps by the level of their locality, of those that have one
--   m0 r0 …      the worker that finished the shard, "placement-task"

local table_of = redis.call('HMGET', shards_key, 'map', 'reduce', 'held', 'failures', 'failed', 'machines', 'levels')
local held, failures, failed = table_of[3] or '', table_of[4] or '', table_of[5]
local machines, levels = table_of[6] or '', table_of[7] or ''
local FAILURE = ' (%a+):(%d+):(%d+):(%d+):(%S+)'

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

-- The count of a number in a list " number:count".
local function count_of(counts, number) return tonumber((match(counts, ' ' .. number .. ':(%d+)')) or 0) end

-- The number of shards that failed on a machine in a row.
local function failed_on(machine) return count_of(machines, machine) end

-- The list with another count for a number; without it when that is 0.
local function counted(counts, number, count)
  local rest = string.gsub(counts, ' ' .. number .. ':%d+', '')
  return count == 0 and rest or rest .. ' ' .. number .. ':' .. count
end
