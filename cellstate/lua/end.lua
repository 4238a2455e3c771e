-- Tasks end: finished, failed, lost, evicted for another reason than a claim, stopped; and the end of
-- leaving tasks is acknowledged. Another placement id than the live one has no effect (semantics 1).
--
-- KEYS   meta machines runs jobs specs jobnames kinds changes log done | box:* pending:* wake:*
-- ARGV   dims tag at by | endings
-- An ending is "machine placement how tasks[ reason]"; how: finished failed lost evicted stopped left;
-- tasks: ranges, or "*" for the whole run.
-- Reply  {"ok", version, count…} with the tasks each ending took effect on (for an evicted member of a
--        strict gang the rest of it too, semantics 8), or {"keys", name…}.
-- Types  as in commit.lua
-- Rules  begins with a deletion, so a full server lets it pass (semantics 13); idempotent (14).

--@include lists binary words ranges publish links tasks

local endings, machines = {}, {}
for i = fixed_args + 1, #ARGV do
  local machine, placement, how, tasks, reason = match(ARGV[i], '^(%d+) (%d+) (%a+) (%S+) ?(.*)$')
  endings[#endings + 1] = { machine = machine, placement = placement, how = how, tasks = tasks, reason = reason }
  machines[#machines + 1] = machine
end
load_machines(machines)
local ids, evicting = {}, false
for _, e in ipairs(endings) do
  local m = M[e.machine]
  if m then
    local _, _, id = find_run(m, e.placement, e.how == 'left')
    if id then ids[#ids + 1] = id end
    evicting = evicting or e.how == 'evicted'
  end
end
load_jobs(ids)
if evicting then load_strict_gangs() end
load_awaiting()
load_kinds_of_jobs()
local names = lacking()
if #names > 0 then return answering({ 'keys' }, names) end

local counts, any = {}, false
for i, e in ipairs(endings) do
  local m, n = M[e.machine], 0
  if m and e.how == 'left' then
    n = acknowledge(m, e.placement, e.tasks)
    if n > 0 and not m.touched then
      m.touched = true
      touched[#touched + 1] = m
    end
  elseif m then
    local reason = e.reason == '' and '-' or e.reason
    n = end_tasks(m, e.placement, e.tasks, e.how, reason, 1)
    if n > 0 then n = n + evict_gangs(reason, 1) end
  end
  counts[i] = n
  any = any or n > 0
end
if any then
  meta.transactions = meta.transactions + 1
  end_waits()
  publish(at, by, true)
end
return answering({ 'ok', format('%d', meta.version) }, counts)
