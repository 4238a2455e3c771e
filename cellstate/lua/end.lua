-- Tasks end: finished, failed, lost, evicted for another reason than a claim, stopped; and the end of
-- leaving tasks is acknowledged. Another placement id than the live one has no effect (semantics 1).
--
-- KEYS   meta machines runs placed jobs specs jobnames kinds lanes lanenames pools changes log done housekeeping | box:* pending:* wake:* asleep
-- ARGV   dims tag at by now | endings
-- now: the server's time in ms. An ending is six words: machine, placement, how (finished failed lost evicted stopped
-- left), tasks as ranges or "*" for the whole run, reason or "-", its job or "-" (needed for the end of lost tasks, 27).
-- Reply  {"ok", version, count…} with the tasks each ending took effect on (for an evicted member of a
--        strict gang the rest of it too, semantics 8), or {"keys", name…}.
-- Types  as in commit.lua
-- Rules  begins with a deletion, so a full server lets it pass (semantics 13); idempotent (14).

--@include lists binary ranges words done pools lanes publish links placements losses tasks

local machines = {}
for i = fixed_args + 1, #ARGV, 6 do machines[#machines + 1] = ARGV[i] end
load_machines(machines)
local ids, evicting = {}, false
for i = fixed_args + 1, #ARGV, 6 do
  local m, how = M[ARGV[i]], ARGV[i + 2]
  if m then
    local lead = (how == 'left' and ' !' or ' ') .. ARGV[i + 1] .. ':'
    local _, to = find(m.runs, lead, 1, true)
    if to then ids[#ids + 1] = match(m.runs, '^[^:]+', to + 1) end
    evicting = evicting or how == 'evicted'
  end
  if ARGV[i + 5] ~= '-' and (how == 'finished' or how == 'failed') then ids[#ids + 1] = ARGV[i + 5] end
end
load_jobs(ids)
if evicting then load_strict_gangs() end
load_awaiting()
load_kinds_of_jobs()
local lack = lacking()
if lack then return lack end

lost_at = tonumber(now)
local counts, any = {}, false
for i = fixed_args + 1, #ARGV, 6 do
  local m, placement, how, tasks, reason, n = M[ARGV[i]], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4], 0
  if m and how == 'left' then
    n = acknowledge(m, placement, tasks)
    if n > 0 and not m.touched then
      m.touched = true
      touched[#touched + 1] = m
    end
  elseif m then
    n = end_tasks(m, placement, tasks, how, reason, 1)
    if n > 0 and #strict > 0 then n = n + evict_gangs(reason, 1) end
  end
  local j = J[ARGV[i + 5]]
  if n == 0 and j and (how == 'finished' or how == 'failed') then n = end_late(j, ARGV[i], placement, tasks, how) end
  counts[#counts + 1] = n
  any = any or n > 0
end
if any then
  meta.transactions = meta.transactions + 1
  end_waits()
  publish(at, by, true)
end
return answering({ 'ok', format('%d', meta.version) }, counts)
