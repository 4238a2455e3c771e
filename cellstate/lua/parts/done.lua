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
