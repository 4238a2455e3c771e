-- Hold a job, or release it. A held job gets no new placements; its running tasks continue. A released job arrives at its
-- schedulers as a new one, unless something else holds it. A person or the gate of the job's scheduler holds it; a person
-- releases it from both, and no gate holds it again.
--
-- KEYS   meta machines runs jobs specs jobnames kinds lanes lanenames pools changes log done recent history results housekeeping waiters | pending:* wake:*
-- ARGV   dims tag at by job action check reason
-- action: "hold" or "release" of a person, "gate" or "pass" of a gate; check: the modify index the caller read, "-" for
-- any; reason: why the gate holds it, "" for other actions.
-- Reply  {"ok", record}, {"unknown"}, {"ended", record}, {"moved", record}, or {"keys", name…}
-- Types  as in commit.lua
-- Rules  a state that the job has already changes nothing (semantics 14)

--@include lists listing binary rows named counters
--@inner
--@include announce ranges records done pools lanes totals publish links

load_jobs({ job })
local j = J[job]
if not j then return { 'unknown' } end
if j.state > HELD then return { 'ended', write_job(j) } end
local by_gate, gate = action == 'gate' or action == 'pass', match(j.links, '<!([^<>]*)')
local holds = action == 'hold' or action == 'gate'
local same = waiters.has_link(j, '<*') == holds and (holds or not gate)
if by_gate then same = gate == (holds and reason or nil) or holds and waiters.has_link(j, '>!') end
if same then return { 'ok', write_job(j) } end
if overtaken(j, check) then return { 'moved', write_job(j) } end
local lack = lacking()
if lack then return lack end

if gate and action ~= 'hold' then waiters.drop_link(j, '<!' .. gate) end
if holds then
  j.state, j.links = HELD, j.links .. (by_gate and '<!' .. reason or '<*')
else
  if not by_gate then
    waiters.drop_link(j, '<*')
    if gate then j.links = j.links .. '>!' end
  end
  if not waiters.waits(j) then waiters.set_free(j) end
end
if by_gate then touch_job(j) else modify(j) end
fact(action .. ' ' .. job .. (action == 'gate' and ' ' .. reason or ''))
publish(at, by, false)
return { 'ok', write_job(j) }
