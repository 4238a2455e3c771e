-- Hold a job, or release it. A held job gets no new placements; its running tasks continue. A released job arrives at its
-- schedulers as a new one, unless it waits for other jobs as well.
--
-- KEYS   meta machines runs jobs specs jobnames kinds lanes lanenames pools changes log done housekeeping | pending:* wake:*
-- ARGV   dims tag at by job action check
-- action: "hold" or "release"; check: the modify index the caller read, "-" for any.
-- Reply  {"ok", record}, {"unknown"}, {"ended", record}, {"moved", record}, or {"keys", name…}
-- Types  as in commit.lua
-- Rules  a state that the job has already changes nothing (semantics 14)

--@include lists listing binary rows named counters announce ranges records done pools lanes publish links

load_jobs({ job })
local j = J[job]
if not j then return { 'unknown' } end
if j.state > HELD then return { 'ended', write_job(j) } end
local held = has_link(j, '<*')
if held == (action == 'hold') then return { 'ok', write_job(j) } end
if overtaken(j, check) then return { 'moved', write_job(j) } end
local lack = lacking()
if lack then return lack end

modify(j)
if action == 'hold' then
  j.state, j.links = HELD, j.links .. '<*'
else
  drop_link(j, '<*')
  if not waits(j) then set_free(j) end
end
fact(action .. ' ' .. job)
publish(at, by, false)
return { 'ok', write_job(j) }
