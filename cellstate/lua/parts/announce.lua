-- What a call that changes the cell writes for others: messages, wake-up tokens, an entry of the change list and of the log.

local facts, mailboxes = {}, {}

-- One token at most until it is consumed (semantics 19).
local function wake(key)
  if redis.call('LLEN', key) == 0 then redis.call('RPUSH', key, '1') end
end

-- The messages of a call to an executor are one entry of its mailbox, with a line each.
local function write_mailboxes()
  for executor, lines in pairs(mailboxes) do
    local key = named['box:' .. executor]
    -- Its executor does not read it: replace it by a mark, upon which the executor reads all its runs.
    if redis.call('RPUSH', key, concat(lines, '\n')) > MAILBOX_MOST then
      redis.call('DEL', key)
      redis.call('RPUSH', key, format('! %d', meta.version + 1))
    end
  end
end

-- Announce the touched machines and the facts under the next version; then further fields of the log's entry, after their names.
local function announce(records, at, by, ...)
  meta.version = meta.version + 1
  redis.call('RPUSH', changes_key, tag .. records)
  if meta.version % TRIM_EVERY == 0 then
    local version, low = meta.version, meta.floor
    --@include trim
    meta.floor = low
  end
  redis.call('XADD', log_key, format('%d-0', meta.version), 'at', at, 'by', by, 'facts', concat(facts, '\n'), ...)
  local counters = {}
  for i = 1, #COUNTERS do
    local name = COUNTERS[i]
    if meta[name] ~= meta_was[i] then
      counters[#counters + 1] = name
      counters[#counters + 1] = format('%d', meta[name])
    end
  end
  store(meta_key, counters)
end
