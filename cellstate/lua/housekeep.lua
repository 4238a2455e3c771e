-- What any live scheduler does for all: end tasks of stopped and abandoned jobs, a bounded number per call.
--
-- KEYS   meta machines runs jobs specs jobnames kinds changes log done housekeeping | box:* pending:* wake:* asleep
-- ARGV   dims tag at by now most
-- now: the server's time in ms; most: runs ended in one call (some 10 us of the server's time each).
-- Reply  {"ok", tasks ended, 1 when more is due now else 0}, or {"keys", name…} with nothing done
-- Types  housekeeping: sorted set, job id by the time from which something is to be done for it; others as in
--        commit.lua
-- Rules  semantics 24; what is done already changes nothing (14); begins with a deletion (13)

--@include lists binary words ranges publish links tasks

local JOBS = 100
local ids = redis.call('ZRANGEBYSCORE', housekeeping_key, '-inf', now, 'LIMIT', 0, JOBS)
load_jobs(ids)

-- Runs of jobs that end, {machine, placement}, at most so many.
local function runs_to_end()
  local list, left = {}, tonumber(most)
  for _, id in ipairs(ids) do
    local j = J[id]
    for _, g in ipairs(j and j.state > HELD and j.groups or {}) do
      for placement, index in gmatch(runs_of(g), '(!?%d+)@(%d+)') do
        if left == 0 then return list, true end
        if sub(placement, 1, 1) ~= '!' then
          list[#list + 1] = { index, placement }
          left = left - 1
        end
      end
    end
  end
  return list, #ids == JOBS
end

local runs, more = runs_to_end()
local machines = {}
for i, run in ipairs(runs) do machines[i] = run[1] end
load_machines(machines)
load_awaiting()
load_kinds_of_jobs()
local names = lacking()
if #names > 0 then return answering({ 'keys' }, names) end

local ended, done = 0, {}
for _, run in ipairs(runs) do ended = ended + end_tasks(M[run[1]], run[2], '*', 'stopped', '-', 1) end
for _, id in ipairs(ids) do
  if not J[id] or J[id].placed == 0 then done[#done + 1] = id end
end
in_chunks('ZREM', housekeeping_key, done)
if ended > 0 then
  meta.transactions = meta.transactions + 1
  end_waits()
  publish(at, by, true)
end
return { 'ok', ended, more and 1 or 0 }
