-- Write machines, jobs, lanes and queues; then the entries of the change list and the log. `jobs`: ids and
-- records; `by`: author; `count_text`, `placements_text`: the counters of transactions and placements, where they change;
-- `sums`: fields of parts/totals.lua and their values. What is one is written without a list.
local records
do
  local n, list, texts, p = #touched, nil, nil, touched[1]
  if n > 1 then records, list, texts = {}, {}, {} end
  for i = 1, n do
    p = touched[i]
    local q, record = MACHINE_WORDS * p, nil
    local number, fixed = machines[q - M_NUMBER], machines[q - M_SHAPE][S_FIXED]
    if R > 2 then
      record = pack_numbers(MACHINE, rows[p], number, fixed, machines[q - M_FIRST], machines[q - M_SECOND], unpack(others[p], 1, R - 2))
    else
      record = pack_numbers(MACHINE, rows[p], number, fixed, machines[q - M_FIRST], machines[q - M_SECOND])
    end
    if list then
      local key = keys[p]
      records[i], list[2 * i - 1], list[2 * i], texts[2 * i - 1], texts[2 * i] = record, key, record, key, runs[p]
    else
      records = record
    end
  end
  if list then
    in_chunks('HSET', machines_key, list)
    in_chunks('HSET', runs_key, texts)
    records = concat(records)
  elseif n == 1 then
    redis.call('HSET', machines_key, keys[p], records)
    redis.call('HSET', runs_key, keys[p], runs[p])
  end
  if jobs then in_chunks('HSET', jobs_key, jobs) end
  for _, k in pairs(kinds) do
    if k then in_chunks('ZREM', k[K_QUEUE], k[K_GONE]) end
  end
  n, list, records = #changed_lanes, nil, records or ''
  if n > 1 then list = {} end
  for i = 1, n do
    local l = changed_lanes[i]
    local record = pack_numbers(LANE, unpack(l, L_ROW + 1, L_ROW + 7 + 2 * R))
    records = records .. sub(record, 1, 8 * (4 + 2 * R))
    if list then
      list[2 * i - 1], list[2 * i] = l[L_NUMBER], record .. l[L_NAME]
    else
      redis.call('HSET', lanes_key, l[L_NUMBER], record .. l[L_NAME])
    end
  end
  if list then in_chunks('HSET', lanes_key, list) end
end
redis.call('RPUSH', changes_key, tag .. records)
local version_text, facts = format('%d', version), lines[2] and concat(lines, '\n') or lines[1] or ''
if placing then
  redis.call('XADD', log_key, version_text .. '-0', 'at', at, 'by', by, 'facts', facts, 'basis', basis)
else
  redis.call('XADD', log_key, version_text .. '-0', 'at', at, 'by', by, 'facts', facts)
end
if version % TRIM_EVERY == 0 then
  --@include trim
  redis.call('HSET', meta_key, 'floor', format('%d', low))
end
if placements_text then
  redis.call('HSET', meta_key, 'version', version_text, 'transactions', count_text, 'placements', placements_text)
elseif sums then
  redis.call('HSET', meta_key, 'version', version_text, 'transactions', count_text, unpack(sums))
else
  redis.call('HSET', meta_key, 'version', version_text)
end
