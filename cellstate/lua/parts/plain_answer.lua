-- The reply, as in parts/answer.lua. A copy that lacks nothing but this call is not compared with the change list: the version
-- that it knows was this member's own (delta.lua reads it otherwise).
outcomes = outcomes and concat(outcomes, ';') or alone or ''
redis.call('HSET', schedulers_key, member, incarnation .. ' ' .. nonce .. ' ' .. number .. ' ' .. tag .. '\n' .. outcomes)
local words = { 'ok', version, tag, outcomes, 'delta', records }
if since ~= counters[1] or since_tag ~= last_tag or version - 1 <= low then
  --@include delta
  words[5], words[6] = delta(version, low, tonumber(since), since_tag)
end
if most ~= '0' then
  --@include intake
  intake(words, named['pending:' .. kind], asked, tonumber(most), owned, (counters[3] or 0) + 0)
end
