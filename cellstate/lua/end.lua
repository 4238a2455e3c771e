-- End tasks: finished, failed, failed and to be placed again (retried), lost, stopped, or evicted for another reason than a claim; acknowledge the end of leaving
-- tasks. A placement id other than the live one has no effect (semantics 1).
--
-- KEYS   meta machines runs placed jobs specs jobnames kinds lanes lanenames pools changes log done recent history results housekeeping waiters | box:* pending:* wake:* asleep
-- ARGV   dims tag at by now | endings
-- now: the server's time in ms. Equal endings are grouped: their words "how tasks job reason", their number, and
-- machine and placement of each. how: finished failed retried lost evicted stopped left; tasks: ranges, or "*" for the whole run;
-- job: "-" or their job (needed for the end of lost tasks, 27), with "@" and the time at which it was submitted when that is
-- known; a run of another job, or of one that was submitted at another time, has no effect, because a store that lost
-- versions gives placement ids and ids of jobs again (16). reason: "-" for none.
-- Reply  {"ok", version, count…} with the number of tasks that each ending changed (for an evicted member of a
--        strict gang the rest of it too, semantics 8), or {"keys", name…}.
-- Types  as in commit.lua
-- Rules  begins with a deletion, which a full server accepts (semantics 13); idempotent (14).

--@include lists binary named
do
  --@include fast_path/end
end
--@include rows done listing counters announce ranges records pools lanes totals publish links placements losses copies tasks

-- The endings as lists: machine, placement, how, tasks, job and reason of each.
local machines, placed_as, hows, parts, jobs_of, times, reasons = {}, {}, {}, {}, {}, {}, {}
do
  local i = fixed_args + 1
  while ARGV[i] do
    local how, tasks, job, time, reason = match(ARGV[i], '^(%S+) (%S+) ([^%s@]+)@?(%d*) (.*)$')
    local last_at = i + 2 * ARGV[i + 1]
    if not (last_at >= i and last_at < #ARGV) then return redis.error_reply('ERR an ending has other runs than it names') end
    for k = i + 2, last_at, 2 do
      local n = #machines + 1
      machines[n], placed_as[n], hows[n], parts[n] = ARGV[k], ARGV[k + 1], how, tasks
      jobs_of[n], times[n], reasons[n] = job, tonumber(time), reason
    end
    i = last_at + 2
  end
end
load_machines(machines)
local ids, evicting = {}, false
for i = 1, #machines do
  local m, how, job = M[machines[i]], hows[i], jobs_of[i]
  if m then
    local lead = (how == 'left' and ' !' or ' ') .. placed_as[i] .. ':'
    local _, to = find(m.runs, lead, 1, true)
    local id = to and match(m.runs, '^[^:]+', to + 1)
    ids[#ids + 1] = id
    evicting = evicting or how == 'evicted'
  end
  if job ~= '-' and (how == 'finished' or how == 'failed') then ids[#ids + 1] = job end
end
load_jobs(ids)
if evicting then load_strict_gangs() end
--@include ready

lost_at = tonumber(now)
local counts, any = {}, false
for i = 1, #machines do
  local m, placement, how, tasks, reason, n = M[machines[i]], placed_as[i], hows[i], parts[i], reasons[i], 0
  -- The owner now: an ending before this one may have made the run leave.
  local owner = m and jobs_of[i] ~= '-' and select(3, find_run(m, placement, how == 'left'))
  local meant = J[jobs_of[i]]
  if meant and times[i] and meant.submitted ~= times[i] then meant = nil end
  if owner and (owner ~= jobs_of[i] or not meant) then
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
  if n == 0 and meant and (how == 'finished' or how == 'failed') then n = end_late(meant, machines[i], placement, tasks, how) end
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
