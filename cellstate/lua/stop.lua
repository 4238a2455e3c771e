-- Stop or abandon a job: its unplaced tasks end at once, later claims get the verdict unknown. The job enters the
-- housekeeping set, so that its running tasks are ended in bounded calls whichever process asked or died (semantics 4, 24).
--
-- KEYS   meta machines runs jobs specs jobnames kinds lanes lanenames pools changes log done recent history results housekeeping waiters | pending:*
-- ARGV   dims tag at by job state check keep
-- state: 2 stopped, 3 abandoned; keep "1": running tasks of an abandoned job continue (stopping the job later ends them);
-- check: the modify index the caller read, "-" for any.
-- Reply  {"ok", record} with the job's record afterwards, {"unknown"}, {"moved", record}, or {"keys", name…}
-- Types  as in commit.lua

--@include lists listing binary rows named counters
--@inner
--@include announce ranges records done pools lanes totals publish links

load_jobs({ job })
local j = J[job]
if not j then return { 'unknown' } end
local kept = j.state == ABANDONED and state == '2' and j.placed > 0 and not redis.call('ZSCORE', housekeeping_key, job)
if j.state > HELD and not kept then return { 'ok', write_job(j) } end
if overtaken(j, check) then return { 'moved', write_job(j) } end
local lack = lacking()
if lack then return lack end
local stopped = waiters.stop_unplaced(j)
j.state = tonumber(state)
if j.state == ABANDONED then touch_job(j) else modify(j) end -- no user abandons a job
if keep == '1' or j.placed == 0 then settled = { job } else chores = { 0, job } end
fact(format('%s %s %d', j.state == ABANDONED and 'abandon' or 'stop', job, stopped))
lack = end_waits()
if lack then return lack end
publish(at, by, true)
return { 'ok', write_job(j) }
