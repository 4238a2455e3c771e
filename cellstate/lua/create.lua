-- Create a cell, or return the existing one; change the durability of that if requested.
--
-- KEYS   meta
-- ARGV   schema rules resources keep_jobs keep_ms durability change
-- durability: "" for none; change: 1 to give it to an existing cell, which must have these resources and rules
-- Reply  {"new" or "same" or "other", schema, resources} of the cell as it is now; {"none", schema, ""} if there is none
--        to change
-- Types  meta: hash

local known = redis.call('HMGET', meta_key, 'schema', 'resources', 'rules')
if change == '1' and not known[1] then return { 'none', schema, '' } end
if known[1] then
  if change == '1' and known[1] == schema and known[2] == resources and known[3] == rules then
    redis.call('HDEL', meta_key, 'durability')
    if durability ~= '' then redis.call('HSET', meta_key, 'durability', durability) end
  end
  return { known[2] == resources and 'same' or 'other', known[1], known[2] }
end
redis.call('HSET', meta_key, 'schema', schema, 'rules', rules, 'resources', resources, 'version', 0, 'floor', 0,
  'keep_jobs', keep_jobs, 'keep_ms', keep_ms)
if durability ~= '' then redis.call('HSET', meta_key, 'durability', durability) end
return { 'new', schema, resources }
