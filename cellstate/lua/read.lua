-- One chunk of a full read of the machines; consistent once the delta since the version of the first
-- chunk has been applied to it (semantics 18).
--
-- KEYS   meta machines names changes
-- ARGV   from to
-- Reply  {version, tag, machines in the cell, text of the records with from <= index < to}
-- Types  meta, machines, names: hash; changes: list

local version = redis.call('HGET', meta_key, 'version') or '0'
local latest = redis.call('LINDEX', changes_key, -1)
local count = redis.call('HLEN', names_key)
local texts, n = {}, 0
for low = tonumber(from), math.min(tonumber(to), count) - 1, 4000 do
  local fields = {}
  for index = low, math.min(low + 4000, tonumber(to), count) - 1 do fields[#fields + 1] = index end
  local rows = redis.call('HMGET', machines_key, unpack(fields))
  for i = 1, #fields do
    n = n + 1
    texts[n] = rows[i]
  end
end
return { version, latest and string.sub(latest, 1, 10) or '', count, table.concat(texts) }
