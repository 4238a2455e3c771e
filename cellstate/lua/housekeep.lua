-- Housekeeping, which any live scheduler does in bounded calls: end tasks of stopped and abandoned jobs; queue lost tasks
-- again when their delay is over; release jobs that wait for ended ones; record the last placement id once per minute.
--
-- KEYS   meta machines runs placed jobs specs jobnames kinds lanes lanenames pools changes log done recent history results housekeeping waiters | box:* pending:* wake:* asleep owners
-- ARGV   dims tag at by now most
-- now: the server's time in ms; most: maximum number of runs ended in one call (about 10 µs of the server's time each).
-- Reply  {"ok", tasks ended, tasks queued again, 1 when more is due now else 0}, or {"keys", name…} with nothing done
-- Types  housekeeping: sorted set of job ids by the time (ms) at which they are due; others as in
--        commit.lua
-- Rules  semantics 24, 26; a repeated call changes nothing (14); begins with a deletion (13)

--@include lists listing binary rows named counters
--@inner
--@include announce ranges records done pools lanes totals publish links placements losses copies tasks

--@const JOBS 100, TICK_MS 60000, WEEK_MS 604800000
local ids = redis.call('ZRANGEBYSCORE', housekeeping_key, '-inf', now, 'LIMIT', 0, JOBS)
load_jobs(ids)

-- Runs of the jobs to end, {placement, machine}, at most `most`.
local function runs_to_end()
  local list, left = {}, tonumber(most)
  for _, id in ipairs(ids) do
    local j = J[id]
    for i, g in ipairs(j and j.state > HELD and j.groups or {}) do
      for _, run in ipairs(far.runs(j, i - 1, g, left + 1)) do
        if left == 0 then return list, true end
        list[#list + 1] = run
        left = left - 1
      end
    end
  end
  return list, #ids == JOBS
end

local runs, more = runs_to_end()
local machines = {}
for i, run in ipairs(runs) do machines[i] = run[2] end
load_machines(machines)
--@include ready

-- The last placement id by the minute, newest first: gives the age of each placement (losses.lua, Cell.placed_by).
-- Entries up to a week old are kept; of those older than 16 minutes the first of each 2, 4, 8 … minutes, at most an
-- eighth of their age.
local function tick()
  local ticks, list, kept, last = redis.call('HGET', meta_key, 'ticks') or '', {}, {}, nil
  local newest = tonumber(match(ticks, '^%d+') or 0)
  if tonumber(now) - newest < TICK_MS then return end
  if redis.call('EXISTS', meta_key) == 0 then return end  -- there is no such cell, and a write would create a part of one
  for each in gmatch(now .. format(':%d ', meta.placements) .. ticks, '%S+') do list[#list + 1] = each end
  for i = #list, 1, -1 do
    local at = tonumber(match(list[i], '^%d+'))
    local age, span = tonumber(now) - at, TICK_MS
    while span * 16 <= age do span = span * 2 end
    if age <= WEEK_MS and (not last or floor(at / span) > floor(last / span)) then
      table.insert(kept, 1, list[i])
      last = at
    end
  end
  redis.call('HSET', meta_key, 'ticks', concat(kept, ' '))
end

local function requeue_due(j)
  local count, due = 0, due_of(j)
  if not due or due > tonumber(now) then return 0 end
  for i, g in ipairs(j.groups) do
    local back = losses.requeue(j, g, tonumber(now))
    if back ~= '-' then
      fact(format('requeue %s %d %s', j.id, i - 1, back))
      count = count + span_count(back)
    end
  end
  return count
end

local ended, queued_again, done, resumed = 0, 0, {}, {}
for _, run in ipairs(runs) do ended = ended + end_tasks(M[run[2]], run[1], '*', 'stopped', '-', 1) end
for _, id in ipairs(ids) do
  local j = J[id]
  if j and j.state <= HELD then queued_again = queued_again + requeue_due(j) end
  if j and j.was_complete and waiters.wait_for(j) then resumed[#resumed + 1] = j end
  if not j or (j.state <= HELD and j.delayed or j.placed) == 0 then done[#done + 1] = id end
end
local resuming = #resumed > 0
lack = end_waits(resumed)
if lack then return lack end
redis.call('HDEL', meta_key, '-')
tick()
in_chunks('ZREM', housekeeping_key, done)
if ended + queued_again > 0 or resuming then
  if ended > 0 then meta.transactions = meta.transactions + 1 end
  publish(at, by, true)
end
return { 'ok', ended, queued_again, (more or waiters.more) and 1 or 0 }
