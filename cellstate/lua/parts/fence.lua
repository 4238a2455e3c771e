-- Whether the sender of a commit may still commit, and whether it sends its last call again (semantics 14, 15).

-- The reply with the outcomes of this call, which are stored for the call sent again.
local answer
-- Whether the copy belongs to a lost history: its numbers mean nothing (semantics 16).
local has_diverged
do
  local function reply(outcomes)
    local mode, text = delta(meta.version, meta.floor, tonumber(since), since_tag)
    local latest = redis.call('LINDEX', changes_key, -1)
    local words = { 'ok', format('%d', meta.version), latest and sub(latest, 1, 10) or '', outcomes, mode, text }
    if tonumber(most) > 0 then intake(words, named['pending:' .. kind], asked, tonumber(most), owned, meta.arrivals) end
    return words
  end

  local record = redis.call('HGET', schedulers_key, member)
  local was, nonce, last, known
  if record then was, nonce, last, known = match(record, '^(%d+) (%S+) (%d+)\n(.*)$') end
  if was ~= incarnation or redis.call('EXISTS', lease_key) == 0 then return { 'fenced' } end
  if last == number then return reply(known) end
  if tonumber(number) < tonumber(last) then return { 'stale' } end

  function answer(outcomes)
    redis.call('HSET', schedulers_key, member, concat({ incarnation, ' ', nonce, ' ', number, '\n', outcomes }))
    return reply(outcomes)
  end

  local diverged
  function has_diverged()
    if diverged == nil then diverged = history_diverged(meta.version, meta.floor, tonumber(since), since_tag) end
    return diverged
  end
end
