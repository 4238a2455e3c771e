--@fields
-- The list of finished jobs, "id version" each, oldest first.

-- Forget the first entries of the list; those whose tasks are still leaving go to the back instead.
-- Returns how many jobs were forgotten.
local function forget(oldest)
  local ids, gone, back = {}, {}, {}
  for i = 1, #oldest do ids[i] = match(oldest[i], '^%S+') end
  local records = fetch(jobs_key, ids)
  for i = 1, #ids do
    if records[i] and string.byte(records[i], LEAVING_AT) == 1 then
      back[#back + 1] = oldest[i]
    else
      gone[#gone + 1] = ids[i]
    end
  end
  in_chunks('HDEL', jobs_key, gone)
  in_chunks('HDEL', specs_key, gone)
  redis.call('LTRIM', done_key, #ids, -1)
  in_chunks('RPUSH', done_key, back)
  return #gone
end

-- Jobs ended under a version. Finished jobs beyond the number that is kept are forgotten, a few per call (semantics 21);
-- retire.lua forgets them by age. An entry names the version in which its job ended: the time of a client decides nothing
-- (30). A job whose tasks are still leaving goes to the back, because what is placed in their room needs its amounts (2).
local function retire(names, ids, version, keep)
  local entries, ended = {}, format(' %d', version)
  for i = 1, #ids do entries[i] = ids[i] .. ended end
  in_chunks('HDEL', jobnames_key, names)
  in_chunks('RPUSH', done_key, entries)
  local excess = math.min(redis.call('LLEN', done_key) - keep, #ids + 4)
  if excess > 0 then forget(redis.call('LRANGE', done_key, 0, excess - 1)) end
end
