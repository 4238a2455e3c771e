-- Claim the output directory of a MapReduce job, or give the claim up.
--
-- KEYS   meta jobs directories
-- ARGV   dims job path keeps ends_at now
-- keeps: 1 claims the directory, 0 gives it up. ends_at: when the claim of a job that is not stored ends (ms, the server's
-- clock), because a directory is claimed just before its job is submitted; 0 for a stored job. now is the server's time.
-- Reply  {"ok"}, or {"held", id} with nothing done: the directory, one in it or one around it belongs to a live job
-- Types  directories: hash, path (percent-encoded) → "job until"; jobs: hash
-- Rules  the claim of a job that has ended, or that is stored no longer, holds nobody, and the next call removes it; a
--        repeated call is ok (14)

--@include lists listing binary ranges rows records

local function within(inner, outer) return inner == outer or sub(inner, 1, #outer + 1) == outer .. '/' end

local claims, holders, over = redis.call('HGETALL', directories_key), {}, {}
for i = 2, #claims, 2 do holders[#holders + 1] = match(claims[i], '^(%S+) ') end
load_jobs(holders)
for i = 1, #claims, 2 do
  local holder, ends = match(claims[i + 1], '^(%S+) (%d+)$')
  local j = J[holder]
  if holder == job then
    if keeps == '0' and claims[i] == path then over[#over + 1] = path end
  elseif keeps == '1' then
    if j and j.was_complete or not j and tonumber(ends or 0) <= tonumber(now) then
      over[#over + 1] = claims[i]
    elseif within(claims[i], path) or within(path, claims[i]) then
      return { 'held', holder }
    end
  end
end
if keeps == '1' then redis.call('HSET', directories_key, path, job .. ' ' .. ends_at) end
for _, each in ipairs(over) do redis.call('HDEL', directories_key, each) end
return { 'ok' }
