-- End tasks: finished, failed, failed and to be placed again (retried), lost, stopped, or evicted for another reason than a claim; acknowledge the end of leaving
-- tasks. A placement id other than the live one has no effect (semantics 1).
--
-- KEYS   meta machines runs placed jobs specs jobnames kinds lanes lanenames pools changes log done recent history results housekeeping waiters | box:* pending:* wake:* asleep owners
-- ARGV   dims tag at by now body
-- now: the server's time in ms. body: endings, bytes without gaps (parts/binary.lua). Equal ones are grouped: how, tasks, job,
-- the time at which the job was submitted, reason; their number, and machine and placement of each. how: finished failed retried lost
-- evicted stopped left; tasks: ranges, or "*" for the whole run; job: empty or their job (needed for the end of lost tasks, 27); the
-- time is 0 when it is not known; a run of another job, or of one that was submitted at another time, has no effect, because a store
-- that lost versions gives placement ids and ids of jobs again (16). reason: "-" for none.
-- Reply  {"ok", version, count…} with the number of tasks that each ending changed (for an evicted member of a
--        strict gang the rest of it too, semantics 8), or {"keys", name…}.
-- Types  as in commit.lua
-- Rules  begins with a deletion, which a full server accepts (semantics 13); idempotent (14).

--@include lists binary named
local counters = redis.call('HMGET', meta_key, 'version', 'floor', 'transactions', 'pools', 'keep_jobs', 'rules', 'limits',
  'tasks_finished', 'jobs_finished')
if counters[6] ~= "RULES" then return redis.error_reply(counters[2] and 'RULES ' .. (counters[6] or 0) or 'NOCELL none') end

-- The endings as lists: machine and placement of each, and what its group says.
--@const MOST_ENDINGS 20000, ENDING_BYTES 12
local hosts, placed_as, says = {}, {}, {}
do
  local at, n = 1, 0
  while at <= #body do
    local how, tasks, job, time, reason, count
    how, tasks, job, time, reason, count, at = unpack_numbers('<I1c0I4c0I1c0I8I4c0I4', body, at)
    if n + count > MOST_ENDINGS then return redis.error_reply('LARGE endings') end
    if at + ENDING_BYTES * count - 1 > #body then return redis.error_reply('ERR an ending has other runs than it names') end
    local said = { how = how, tasks = tasks, job = job ~= '' and job, time = time > 0 and time, reason = reason }
    for _ = 1, count do
      local machine, placement
      machine, placement, at = unpack_numbers('<i4I8', body, at)
      n = n + 1
      hosts[n], placed_as[n], says[n] = format('%d', machine), format('%d', placement), said
    end
  end
end
do
  --@include fast_path/end
end
--@include listing counters
--@inner
--@include rows done announce ranges records pools lanes totals publish links placements losses copies tasks

load_machines(hosts)
local ids, evicting = {}, false
for i = 1, #hosts do
  local m, how, job = M[hosts[i]], says[i].how, says[i].job
  if m then
    local lead = (how == 'left' and ' !' or ' ') .. placed_as[i] .. ':'
    local _, to = find(m.runs, lead, 1, true)
    local id = to and match(m.runs, '^[^:]+', to + 1)
    ids[#ids + 1] = id
    evicting = evicting or how == 'evicted'
  end
  if job and (how == 'finished' or how == 'failed') then ids[#ids + 1] = job end
end
load_jobs(ids)
if evicting then load_strict_gangs() end
--@include ready

losses.lost_at = tonumber(now)
local counts, any = {}, false
for i = 1, #hosts do
  local m, placement, said, n = M[hosts[i]], placed_as[i], says[i], 0
  local how, tasks, reason = said.how, said.tasks, said.reason
  -- The owner now: an ending before this one may have made the run leave.
  local owner = m and said.job and select(3, find_run(m, placement, how == 'left'))
  local meant = said.job and J[said.job]
  if meant and said.time and meant.submitted ~= said.time then meant = nil end
  if owner and (owner ~= said.job or not meant) then
    n = 0
  elseif m and how == 'left' then
    n = acknowledge(m, placement, tasks, reason)
    if n > 0 and not m.touched then
      m.touched = true
      touched[#touched + 1] = m
    end
  elseif m then
    n = end_tasks(m, placement, tasks, how, reason, 1)
    if n > 0 and #strict > 0 then n = n + evict_gangs(reason, 1) end
  end
  if n == 0 and meant and (how == 'finished' or how == 'failed') then n = losses.end_late(meant, hosts[i], placement, tasks, how) end
  counts[i] = n
  any = any or n > 0
end
if any then
  meta.transactions = meta.transactions + 1
  lack = end_waits()
  if lack then return lack end
  publish(at, by, true)
end
return answering({ 'ok', format('%d', meta.version) }, counts)
