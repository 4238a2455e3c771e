-- The reply to a commit.

-- The reply to this call, whose outcomes are stored for a repeated call; version, low, arrivals: counters of the cell.
local answer
-- Whether the snapshot belongs to a history that this store lost when it went back in time: its machine numbers are invalid
-- (semantics 16). A trimmed version counts as known.
local has_diverged
do
  local function reply(outcomes, version, low, arrivals, latest)
    local mode, text = delta(version, low, tonumber(since), since_tag)
    local words = { 'ok', version, latest, outcomes, mode, text }
    if request ~= '' then
      --@include request intake
      intake(words, named['pending:' .. kind], asked, tonumber(most), owned, tonumber(arrivals) or 0)
    end
    return words
  end

  if last == number then
    local known = match(redis.call('HGET', schedulers_key, member), '\n(.*)$')
    local latest = redis.call('LINDEX', changes_key, -1)
    return reply(known, tonumber(counters[1]), tonumber(counters[2]) or 0, redis.call('HGET', meta_key, 'arrivals'), sub(latest or '', 1, 10))
  end

  function answer(outcomes, version, low, arrivals)
    redis.call('HSET', schedulers_key, member,
      incarnation .. ' ' .. nonce .. ' ' .. number .. ' ' .. tag .. '\n' .. outcomes)
    return reply(outcomes, version, low, arrivals, tag)
  end

  local diverged
  function has_diverged()
    if diverged == nil then
      local version, low, known = tonumber(counters[1]), tonumber(counters[2]) or 0, tonumber(since)
      diverged = known > version
      if not diverged and known > low then
        diverged = sub(redis.call('LINDEX', changes_key, known - low - 1) or '', 1, 10) ~= since_tag
      end
    end
    return diverged
  end
end
