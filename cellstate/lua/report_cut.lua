-- Report that the store lost versions of the cell which a process had seen. One report is kept for each cut.
--
-- KEYS   meta machines changes log cuts settling unsettled agents executors | box:*
-- ARGV   dims tag at by now known agreed first_lost seen kept reporters ahead
-- agreed: the last version that the process and the cell have in common; first_lost: the first one that the process saw and
-- the cell has not; seen: the last one that it saw; known: the number of the last cut when the process compared before;
-- kept: maximum number of reports; reporters: maximum number of names in one; ahead: increase of the counter of placements,
-- whose lost ids may still be reported; now: the server's time in ms.
-- Reply  {"ok", number of the cut, its record}, or {"keys", name…} with nothing done
-- Types  cuts: hash, number → "agreed first_lost seen at version name,…"; "last" → number of the newest; "lost" → sum of
--        versions that are surely lost; settling: string; unsettled: hash, executor → 1; both expire; agents, executors:
--        hash; others as in commit.lua
-- Rules  semantics 16: reports of one cut overlap, because it lies between what they agree and what they lost; merged in any
--        order they give one record. A repeated call changes nothing (14); begins with HSET (13). With the first report
--        each executor is to compare what it runs with the cell. Until all agents did (confirm_runs.lua), at most for their
--        longest lease, no task starts: it may still run where a lost version placed it, also one placed between cut and report.

--@include lists listing binary rows named counters announce

agreed, first_lost, seen = tonumber(agreed), tonumber(first_lost), tonumber(seen)
local last = tonumber(redis.call('HGET', cuts_key, 'last') or 0)
local at_version, at_ms, number, names, before = meta.version + 1, now, nil, { by }, 0
for n = last, math.max(tonumber(known), last - kept) + 1, -1 do
  local a, f, s, ms, v, list = match(redis.call('HGET', cuts_key, n) or '', '^(%d+) (%d+) (%d+) (%d+) (%d+) (%S+)$')
  if a and math.max(agreed, tonumber(a)) < math.min(first_lost, tonumber(f)) then
    number, at_ms, at_version, before = n, ms, tonumber(v), s - f + 1
    agreed, first_lost, seen = math.max(agreed, tonumber(a)), math.min(first_lost, tonumber(f)), math.max(seen, tonumber(s))
    for name in gmatch(list, '[^,]+') do
      if name ~= by then names[#names + 1] = name end
    end
    break
  end
end
local is_new = not number
number = number or math.max(last, tonumber(known)) + 1

local members, executors, agents, longest = redis.call('HGETALL', agents_key), {}, {}, 0
for i = 1, #members, 2 do
  executors[#executors + 1] = members[i]
  if sub(members[i], 1, 6) == 'agent/' then
    agents[#agents + 1], agents[#agents + 2] = members[i], '1'
    longest = math.max(longest, tonumber(match(members[i + 1], '(%d+)$') or 0))
  end
end
local boxes, wanted = {}, {}
for i, each in ipairs(is_new and fetch(executors_key, executors) or {}) do
  boxes[i] = 'box:' .. (each or '')
  if not named[boxes[i]] then wanted[#wanted + 1] = boxes[i] end
end
if #wanted > 0 then return answering({ 'keys' }, wanted) end

table.sort(names)
while #names > tonumber(reporters) do names[#names] = nil end
local record = format('%d %d %d %s %d %s', agreed, first_lost, seen, at_ms, at_version, concat(names, ','))
if redis.call('HGET', cuts_key, format('%d', number)) ~= record then
  redis.call('HSET', cuts_key, format('%d', number), record)
  redis.call('HINCRBY', cuts_key, 'lost', seen - first_lost + 1 - before)
end
if is_new then
  redis.call('HSET', cuts_key, 'last', format('%d', number))
  redis.call('HDEL', cuts_key, format('%d', number - kept))
  meta.placements = meta.placements + ahead
  facts[1] = format('cut %d %d %d %d %d', number, agreed, first_lost, seen, meta.placements)
  announce('', at, by)
  if longest > 0 and redis.call('SET', settling_key, '0', 'PX', longest, 'NX') then
    store(unsettled_key, agents)
    redis.call('PEXPIRE', unsettled_key, longest)
  end
  for _, box in ipairs(boxes) do redis.call('RPUSH', named[box], format('! %d', meta.version)) end
end
return { 'ok', number, record }
