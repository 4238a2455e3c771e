-- The reply, as in parts/answer.lua. A copy that lacks nothing but this call is not compared with the change list: the version
-- that it knows was this member's own (delta.lua reads it otherwise).
outcomes = outcomes and concat(outcomes, ';') or alone or ''
redis.call('HSET', schedulers_key, member, incarnation .. ' ' .. nonce .. ' ' .. number .. ' ' .. tag .. '\n' .. outcomes)
local knows = since == counters[1] and since_tag == last_tag and version - 1 > low
if knows and request == '' then return version_text .. ' ' .. outcomes .. '\n' .. records end
local words = { 'ok', version, tag, outcomes, 'delta', records }
if not knows then
  --@include delta
  words[5], words[6] = delta(version, low, tonumber(since), since_tag)
end
if request ~= '' then
  --@include request intake
  intake(words, named['pending:' .. kind], asked, tonumber(most), owned, (redis.call('HGET', meta_key, 'arrivals') or 0) + 0)
end
