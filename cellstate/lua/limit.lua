-- Set the limits on all jobs of a kind together (semantics 9).
--
-- KEYS   meta machines runs jobs specs jobnames kinds lanes lanenames pools changes log done housekeeping | wake:*
-- ARGV   dims tag at by kind limits
-- limits: "max_jobs lowest highest max*R", "-" for none.
-- Reply  {"ok", version}
-- Types  as in commit.lua
-- Rules  equal limits change nothing (14)

--@include lists listing binary rows named counters announce ranges words done pools lanes publish

load_kinds({ kind })
local k, before = K[kind], redis.call('HGET', kinds_key, kind)
local words = {}
for word in gmatch(limits, '%S+') do words[#words + 1] = word end
k.max_jobs, k.lowest, k.highest = tonumber(words[1]), tonumber(words[2]), tonumber(words[3])
for d = 1, R do k.limit[d] = tonumber(words[3 + d]) end
if before == write_kind(k) then return { 'ok', format('%d', meta.version) } end
k.changed = true
fact('limit ' .. kind .. ' ' .. limits)
for name, key in pairs(named) do
  if match(name, '^wake:' .. string.gsub(kind, '%-', '%%-') .. '/') then wake(key) end
end
write_kinds()
announce('', at, by)
return { 'ok', format('%d', meta.version) }
