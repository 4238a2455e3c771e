-- Keep what an agent's health checks found of the tasks of a job on its machine, and grant the end of unhealthy ones.
--
-- KEYS   meta runs placed jobs health
-- ARGV   dims job machine max_down now until_ms cursor | tasks
-- A task is "placement task state": "ready" (its readiness command passed), "ending" (its end was granted, and it has not
-- been healthy since), "asks" (its liveness command failed; the agent asks for a grant) or "down" (its attempt failed, and
-- the next one has not started). The list replaces that of the
-- machine. now: the server's time in ms; until_ms: when a grant of this call expires; cursor: where the agent's search for
-- records of jobs that are no longer kept continues.
-- Reply  {"ok", cursor, "placement task"…} with the granted tasks
-- Types  health: hash, job → " machine:placement:task:until" each, until 0 for a ready task, 1 for one that is
--        down; others as in commit.lua
-- Rules  a job that ended has no records; of the tasks of a job at most max_down are ending or delayed after their end at once; a grant is for a live
--        placement, and expires; a repeated call grants the same tasks (semantics 14)

--@include lists listing binary ranges rows records

load_jobs({ job })
local j = J[job]
local open = j and j.state <= HELD
local kept, mine, down = {}, {}, 0
for text, index, due in gmatch(redis.call('HGET', health_key, job) or '', '((%d+):%d+:%d+:(%d+))') do
  local ending = due ~= '1' and tonumber(due) > tonumber(now)
  if index == machine then
    mine[match(text, '^%d+:(%d+:%d+)')] = ending and due
  elseif open and (ending or due == '0' or due == '1') then
    kept[#kept + 1] = text
    if ending then down = down + 1 end
  end
end
local granted, asks = {}, {}
local runs = redis.call('HGET', runs_key, machine) or ''
local function grant(placement, task, due)
  down = down + 1
  kept[#kept + 1] = machine .. ':' .. placement .. ':' .. task .. ':' .. due
end
for i = fixed_args + 1, open and #ARGV or 0 do
  local placement, task, state = match(ARGV[i], '^(%d+) (%d+) (%a+)$')
  local due = mine[placement .. ':' .. task]
  local _, _, id, _, tasks = find_run({ runs = runs }, placement, false)
  if id == job and (span_split(tasks, task)) ~= '-' then
    if state == 'ready' or state == 'down' then
      kept[#kept + 1] = machine .. ':' .. placement .. ':' .. task .. (state == 'ready' and ':0' or ':1')
    elseif due then
      grant(placement, task, due)
      if state == 'asks' then granted[#granted + 1] = placement .. ' ' .. task end
    elseif state == 'asks' then
      asks[#asks + 1] = { placement, task }
    end
  end
end
if open then
  for _, g in ipairs(j.groups) do down = down + g[DELAYED] end
end
for _, ask in ipairs(asks) do
  if down < tonumber(max_down) then
    grant(ask[1], ask[2], until_ms)
    granted[#granted + 1] = ask[1] .. ' ' .. ask[2]
  end
end
if #kept > 0 then
  redis.call('HSET', health_key, job, ' ' .. concat(kept, ' '))
else
  redis.call('HDEL', health_key, job)
end
local page, gone = redis.call('HSCAN', health_key, cursor, 'COUNT', 16), {}
for i = 1, #page[2], 2 do
  if redis.call('HEXISTS', jobs_key, page[2][i]) == 0 then gone[#gone + 1] = page[2][i] end
end
if #gone > 0 then redis.call('HDEL', health_key, unpack(gone)) end
local reply = { 'ok', page[1] }
for _, task in ipairs(granted) do reply[#reply + 1] = task end
return reply
