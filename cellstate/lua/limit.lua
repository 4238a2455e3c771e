-- Set the limits on all jobs of a kind together (semantics 9).
--
-- KEYS   meta machines runs jobs specs jobnames kinds lanes lanenames pools changes log done recent history results housekeeping | wake:*
-- ARGV   dims tag at by kind limits
-- limits: "max_jobs lowest highest max*R", "-" for none.
-- Reply  {"ok", version}
-- Types  as in commit.lua
-- Rules  equal limits change nothing (14); only a kind with limits has a record, which begins with what its lanes hold

--@include lists listing binary rows named counters
--@inner
--@include announce ranges records done pools lanes totals publish

load_kinds({ kind })
local k, words = K[kind], {}
local before = write_kind(k)
for word in gmatch(limits, '%S+') do words[#words + 1] = word end
k.max_jobs, k.lowest, k.highest = tonumber(words[1]), tonumber(words[2]), tonumber(words[3])
for d = 1, R do k.limit[d] = tonumber(words[3 + d]) end
if before == write_kind(k) then return { 'ok', format('%d', meta.version) } end
if not k.kept then
  local rows = redis.call('HGETALL', lanes_key)
  for i = 1, #rows, 2 do
    if rows[i] ~= 'spare' and sub(rows[i + 1], 8 * lanes.RUNNING + 1, 8 * lanes.RUNNING + #kind + 1) == kind .. ' ' then
      local l = { unpack_numbers('<' .. string.rep('i8', lanes.RUNNING), rows[i + 1]) }
      k.jobs = k.jobs + l[lanes.RUNNING]
      for d = 1, R do k.used[d] = k.used[d] + l[WANTED + R + d] end
    end
  end
end
local first, amounts = match(limits, '^(%S+ %S+ %S+ )(.*)$')
fact('limit ' .. kind .. ' ' .. first .. string.gsub(amounts, ' ', ','))
for name, key in pairs(named) do
  if match(name, '^wake:' .. string.gsub(kind, '%-', '%%-') .. '/') then wake(key) end
end
if limits == '-' .. string.rep(' -', R + 2) then
  redis.call('HDEL', kinds_key, kind)
else
  redis.call('HSET', kinds_key, kind, write_kind(k))
end
meta.limits = redis.call('HLEN', kinds_key)
announce('', at, by)
return { 'ok', format('%d', meta.version) }
