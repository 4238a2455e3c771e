-- Write a step of the digest (cellstate/digest/step.py): records of jobs and hours of use, with the position in the log
-- that the step has reached.
--
-- KEYS   meta jobs history results usage log
-- ARGV   before after to at oldest count | records
-- before, after: the record of the position that the step began at, and of the one that it reached; to: its version; at: the
-- time of the entry of the log that was read there, "-" for none; oldest: the first hour that is kept; records: of `count` jobs each its id, its history, the list of its chunks, the number of its changed
-- chunks and their fields and records; then pairs of hours and their records.
-- Reply  {"ok"}, or {"other"} with nothing done: another process wrote a step meanwhile, or this one already, or the cell
--        went back before the version that was read, whose number it has perhaps given out anew (semantics 16)
-- Types  jobs, history, results, usage: hash
-- Rules  begins with HSET, which a full server refuses (semantics 13); a repeated call changes nothing (14). A job that was
--        deleted meanwhile gets no records: records are deleted with their job (parts/done.lua).

--@include lists listing

if (redis.call('HGET', usage_key, 'position') or '') ~= before then return { 'other' } end
if redis.call('HEXISTS', meta_key, 'version') == 0 then return { 'other' } end  -- there is no such cell
if tonumber(to) > tonumber(redis.call('HGET', meta_key, 'version')) then return { 'other' } end
local entry = redis.call('XRANGE', log_key, to .. '-0', to .. '-0')[1]
if at ~= '-' and entry and entry[2][2] ~= at then return { 'other' } end
local i, ids, records, listed = fixed_args + 1, {}, {}, {}
for _ = 1, tonumber(count) do
  local id, changed = ARGV[i], {}
  local last = i + 3 + 2 * ARGV[i + 3]
  if not (last >= i + 3 and last <= #ARGV) then return redis.error_reply('ERR a job has other records than it names') end
  for k = i + 4, last do changed[#changed + 1] = ARGV[k] end
  ids[#ids + 1], records[id] = id, { ARGV[i + 1], ARGV[i + 2], changed }
  i = last + 1
end
local histories, results, hours = {}, {}, {}
for k, record in ipairs(fetch(jobs_key, ids)) do
  if record then
    local id = ids[k]
    local history, chunks, changed = unpack(records[id])
    histories[#histories + 1], histories[#histories + 2] = id, history
    if chunks ~= '' then
      results[#results + 1], results[#results + 2] = id, chunks
      for _, word in ipairs(changed) do results[#results + 1] = word end
    end
  end
end
for k = i, #ARGV do hours[#hours + 1] = ARGV[k] end
redis.call('HEXISTS', history_key, '')  -- a key of another type fails before the first write
redis.call('HEXISTS', results_key, '')
local fields = redis.call('HLEN', usage_key)
redis.call('HSET', usage_key, 'position', after)
store(usage_key, hours)
store(history_key, histories)
store(results_key, results)
if redis.call('HLEN', usage_key) > fields then
  local old = {}
  for _, hour in ipairs(redis.call('HKEYS', usage_key)) do
    if (tonumber(hour) or tonumber(oldest)) < tonumber(oldest) then old[#old + 1] = hour end
  end
  in_chunks('HDEL', usage_key, old)
end
return { 'ok' }
