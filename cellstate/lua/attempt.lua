-- Record attempts at jobs that placed nothing: the first wait of these jobs is over, also for other schedulers.
--
-- KEYS   meta machines runs jobs specs jobnames kinds lanes lanenames pools changes log done recent history results housekeeping
-- ARGV   dims tag at by | jobs
-- Reply  {"ok", number of jobs that changed}
-- Types  as in commit.lua
-- Rules  a job that has begun or ended stays unchanged (semantics 14), and so does a job of which something was placed
--        since the attempt: the note of an attempt comes later than the attempt

--@include lists listing binary rows named counters
--@inner
--@include announce ranges records done pools lanes totals publish

-- Whether all tasks of a job are unplaced.
local function is_whole(j)
  for _, g in ipairs(j.groups) do
    if g[UNPLACED] ~= g[TOTAL] then return false end
  end
  return true
end

local ids = {}
for i = fixed_args + 1, #ARGV do ids[#ids + 1] = ARGV[i] end
load_jobs(ids)
for _, id in ipairs(ids) do
  local j = J[id]
  if j and not j.begun and j.state <= HELD and is_whole(j) then
    j.begun = true
    touch_job(j)
    fact('attempt ' .. id)
  end
end
if #changed_jobs > 0 then publish(at, by, false) end
return { 'ok', #changed_jobs }
