-- Change one machine: its state (up, drained, down, gone) or its capacity.
--
-- KEYS   meta machines runs jobs specs jobnames kinds changes log done | box:* pending:* wake:*
-- ARGV   dims tag at by index action change
-- action "state": change is 0 up, 1 drained, 2 down, 3 gone; tasks of a machine that goes down or away
-- are lost and go back to pending in the same call. action "capacity": change is "capacity*R", then
-- " placement*count" for each eviction it needs; refused when it would leave the machine over.
-- Reply  {"ok", version, tasks put back}, {"unknown"}, {"over", placements…}, or {"keys", name…}
-- Types  as in commit.lua
-- Rules  semantics 5

--@include words ranges publish tasks

load_machines({ index })
local m = M[index]
if not m or m[3] == GONE then return { 'unknown' } end
load_jobs_on({ index })
load_kinds_of_jobs()
if action == 'capacity' then load_strict_gangs() end
local names = lacking()
if #names > 0 then return { 'keys', unpack(names) } end

local function set_state()
  local count = 0
  touch(m, 1)
  m[3] = change
  fact('machine ' .. index .. ' state ' .. change .. ' ' .. values(m))
  if change == DOWN or change == GONE then
    for placement in gmatch(m.runs, ' (%d+):') do count = count + end_tasks(m, placement, '*', 'lost', '-', 1) end
    for placement in gmatch(m.runs, ' !(%d+):') do acknowledge(m, placement, '*') end
  end
  return count
end

local function shrink()
  local capacity, d, freed, victims = {}, 0, {}, {}
  for amount in gmatch(match(change, '^[%d ]+$') or match(change, '^(.-) %d+%*'), '%d+') do
    capacity[#capacity + 1] = tonumber(amount)
  end
  for dim = 1, R do freed[dim] = 0 end
  for placement, count in gmatch(change, '(%d+)%*(%d+)') do
    local from, _, id, group, tasks = find_run(m, placement, false)
    if from then
      local n, need = math.min(tonumber(count), span_count(tasks)), J[id].groups[group + 1].need
      victims[#victims + 1] = { placement = placement, part = (span_tail(tasks, n)) }
      for dim = 1, R do freed[dim] = freed[dim] + need[dim] * n end
    end
  end
  for dim = 1, R do
    if m[USED + dim] - freed[dim] > capacity[dim] then return nil end
  end
  local count = 0
  touch(m, 1)
  for dim = 1, R do m[4 + dim] = capacity[dim] end
  fact('machine ' .. index .. ' capacity ' .. concat(capacity, ',') .. ' ' .. values(m))
  for _, v in ipairs(victims) do count = count + end_tasks(m, v.placement, v.part, 'evicted', 'over', 1) end
  return count
end

local count = action == 'state' and set_state() or (action == 'capacity' and shrink())
if not count then
  local live = {}
  for placement in gmatch(m.runs, ' (%d+):') do live[#live + 1] = placement end
  return { 'over', unpack(live) }
end
meta.transactions = meta.transactions + 1
publish(at, by, change ~= '0')
return { 'ok', string.format('%.0f', meta.version), count }
