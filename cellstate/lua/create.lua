-- Create a cell, or return the existing one.
--
-- KEYS   meta
-- ARGV   schema resources keep_jobs keep_ms
-- Reply  {"new" or "same" or "other", schema, resources} of the cell as it is now
-- Types  meta: hash

local known = redis.call('HMGET', meta_key, 'schema', 'resources')
if known[1] then
  return { known[2] == resources and 'same' or 'other', known[1], known[2] }
end
redis.call('HSET', meta_key, 'schema', schema, 'resources', resources, 'version', 0, 'floor', 0,
  'keep_jobs', keep_jobs, 'keep_ms', keep_ms)
return { 'new', schema, resources }
