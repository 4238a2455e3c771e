-- Return the changes that a snapshot lacks, and the next jobs of a scheduler. Read only.
--
-- KEYS   meta machines runs jobs specs lanes changes | pending:*
-- ARGV   dims since since_tag kind asked most owned
-- Reply  {"ok", version, tag, "", mode, text, arrivals, counts, (id, arrival, record, spec)…}; as in commit.lua
-- Types  as in commit.lua
-- Rules  semantics 16, 18

--@include lists binary rows delta intake

local meta = redis.call('HMGET', meta_key, 'version', 'floor', 'arrivals')
local version, low = tonumber(meta[1] or 0), tonumber(meta[2] or 0)
local mode, text = delta(version, low, tonumber(since), since_tag)
local latest = redis.call('LINDEX', changes_key, -1)
local answer = { 'ok', format('%d', version), latest and sub(latest, 1, 10) or '', '', mode, text }
if tonumber(most) > 0 then intake(answer, KEYS[fixed_keys + 1], asked, tonumber(most), owned, tonumber(meta[3] or 0)) end
return answer
