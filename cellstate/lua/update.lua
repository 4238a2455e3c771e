-- Begin an update of a job: its new tasks are further groups, empty at first. The scheduler in charge of the update then
-- moves tasks from the old groups to the new ones (resize.lua), a few at a time. The number of a group names the same
-- tasks permanently, so old groups stay in the record.
--
-- KEYS   meta machines runs jobs specs jobnames kinds lanes lanenames pools changes log done recent history results housekeeping waiters updates copied | pending:* wake:*
-- ARGV   dims tag at by job check most commands whose current spec settings | groups
-- settings: for the log, terms of the groups (cellstate/logged_settings.py).
-- spec: what only schedulers and executors read, of all groups. A group is the record of one without tasks
-- (cellstate/schema.py); most: groups a job may have; commands: 1 when tasks of the job then run commands, else 0; whose:
-- pool, user and class of expected duration by this spec, which must be those of the job's lane; current: ",N,N," the
-- groups that the update aims at, the others are replaced, "-" when the spec does not say. check: the modify index
-- the caller read, "-" for any.
-- Reply  {"ok", record}, {"unknown"}, {"ended", record}, {"moved", record}, {"often", record} (too many groups),
--        {"lane", record}, or {"keys", name…}
-- Types  updates, copied: hash; others as in commit.lua
-- Rules  a job that has this spec already is left as it is (semantics 14)

--@include lists listing binary rows named counters
--@inner
--@include announce ranges records done pools lanes totals publish links

load_jobs({ job })
local j = J[job]
if not j then return { 'unknown' } end
if j.state > HELD then return { 'ended', write_job(j) } end
if (redis.call('HGET', specs_key, job) or '') == spec then return { 'ok', write_job(j) } end
if overtaken(j, check) then return { 'moved', write_job(j) } end
if #j.groups + #ARGV - fixed_args > tonumber(most) then return { 'often', write_job(j) } end
lanes.load({ j.lane })
local lane = L[j.lane].name
if match(lane, '%S+$') ~= whose and lane ~= j.kind .. ' 0 ,,' then return { 'lane', write_job(j) } end
local lack = lacking()
if lack then return lack end

redis.call('HSET', specs_key, job, spec)
for i = fixed_args + 1, #ARGV do
  local g = group_of(GROUP, ARGV[i], 1, GROUP_BYTES + 8 * R + 1)
  j.groups[#j.groups + 1] = g
  if g[OPTIONAL] == COPIES then redis.call('HSET', copied_key, job, j.kind) end
end
redis.call('HSET', updates_key, job, 'rolling')
for i, g in ipairs(current ~= '-' and j.groups or {}) do
  if g[OPTIONAL] < COPIES and not find(current, format(',%d,', i - 1), 1, true) then g[OPTIONAL] = g[OPTIONAL] + REPLACED end
end
j.commands = commands == '1'
modify(j)
fact('update ' .. job)
publish(at, by, false, '', 'settings', settings)
return { 'ok', write_job(j) }
