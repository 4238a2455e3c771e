-- Write machines, jobs, lanes, kinds and their queues; then the entries of the change list and the log. `jobs`: ids and
-- records; `by` and `changed`: author, further counters after their names.
local records = {}
do
  local rows, n = {}, #touched
  for i = 1, n do
    local p = touched[i]
    local key, record = keys[p], nil
    if R > 2 then
      record = pack_numbers(MACHINE, heads[p], numbers[p], shapes[p][S_FIXED], firsts[p], seconds[p], unpack(others[p], 1, R - 2))
    else
      record = pack_numbers(MACHINE, heads[p], numbers[p], shapes[p][S_FIXED], firsts[p], seconds[p])
    end
    records[i], rows[2 * i - 1], rows[2 * i] = record, key, record
  end
  in_chunks('HSET', machines_key, rows)
  for i = 1, n do rows[2 * i] = runs[touched[i]] end
  in_chunks('HSET', runs_key, rows)
  in_chunks('HSET', jobs_key, jobs)
  for name, k in pairs(kinds) do
    if k and k[K_CHANGED] then
      local used = format(VALUES, k[K_JOBS], unpack(k, K_USED + 1, K_USED + R))
      redis.call('HSET', kinds_key, name, UNLIMITED .. used)
      in_chunks('ZREM', k[K_QUEUE], k[K_GONE])
    end
  end
  rows = {}
  for i = 1, #changed_lanes do
    local l = changed_lanes[i]
    local record = pack_numbers(LANE, unpack(l, L_ROW + 1, L_ROW + 7 + 2 * R))
    records[n + i], rows[2 * i - 1], rows[2 * i] = sub(record, 1, 8 * (4 + 2 * R)), l[L_NUMBER], record .. l[L_NAME]
  end
  in_chunks('HSET', lanes_key, rows)
end
records = concat(records)
redis.call('RPUSH', changes_key, tag .. records)
do
  local number = format('%d', version)
  if placing then
    redis.call('XADD', log_key, number .. '-0', 'at', at, 'by', by, 'facts', concat(lines, '\n'), 'basis', basis)
  else
    redis.call('XADD', log_key, number .. '-0', 'at', at, 'by', by, 'facts', concat(lines, '\n'))
  end
  if version % TRIM_EVERY == 0 then
    --@include trim
    changed[#changed + 1], changed[#changed + 2] = 'floor', format('%d', low)
  end
  redis.call('HSET', meta_key, 'version', number, unpack(changed))
end
