-- Report that the store lost versions of the cell which a process had seen. One report is kept for each cut.
--
-- KEYS   meta machines changes log cuts
-- ARGV   dims tag at by now known agreed first_lost seen kept reporters
-- agreed: the last version that the process and the cell have in common; first_lost: the first one that the process saw and
-- the cell has not; seen: the last one that it saw; known: the number of the last cut when the process compared before;
-- kept: maximum number of reports; reporters: maximum number of names in one; now: the server's time in ms.
-- Reply  {"ok", number of the cut, its record}
-- Types  cuts: hash, number → "agreed first_lost seen at version name,…"; "last" → number of the newest; "lost" → sum of
--        versions that are surely lost; others as in commit.lua
-- Rules  semantics 16: reports of one cut overlap, because it lies between what they agree and what they lost; merged in any
--        order they give one record. A repeated call changes nothing (14); begins with HSET (13)

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
  facts[1] = format('cut %d %d %d %d', number, agreed, first_lost, seen)
  announce('', at, by)
end
return { 'ok', number, record }
