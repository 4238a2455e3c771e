-- Read the newest entries of the log that came after a version, from the newest back, until a number of entries or of
-- bytes was read; of these return the lines that have a text. Read only.
--
-- KEYS   meta log
-- ARGV   since versions bytes text
-- text: part of the lines that are wanted, such as the id of a job; with an empty one all lines are.
-- Reply  {"ok", first, after, newest, (key, at, by, basis, lines) per entry with such lines…}, the newest entry first.
--        first: the oldest version of the log, newest + 1 when it is empty; after: the version since which everything
--        was read: `since`, the one before the first, or a later one where a bound ended the reading; newest: the cell's.
-- Types  meta: hash; log: stream
-- Rules  a question about one job costs the same in any cell (semantics 40)

local format, find = string.format, string.find

local function version_of(entry) return tonumber(string.match(entry[1], '^%d+')) end

local function wanted_lines(facts)
  if text == '' then return facts end
  if not find(facts, text, 1, true) then return '' end
  local lines = {}
  for line in string.gmatch(facts, '[^\n]+') do
    if find(line, text, 1, true) then lines[#lines + 1] = line end
  end
  return table.concat(lines, '\n')
end

local oldest = redis.call('XRANGE', log_key, '-', '+', 'COUNT', 1)[1]
local newest = tonumber(redis.call('HGET', meta_key, 'version') or '0')
local first = oldest and version_of(oldest) or newest + 1
local after = math.max(tonumber(since), first - 1)
local reply = { 'ok', format('%.0f', first), '', format('%.0f', newest) }
local function add(value) reply[#reply + 1] = value or '' end
local at, read, size = newest, 0, 0
while at > after and read < tonumber(versions) and size < tonumber(bytes) do
  local entry = redis.call('XREVRANGE', log_key, format('%.0f', at), format('%.0f', after + 1), 'COUNT', 1)[1]
  if not entry then
    at = after
  else
    local fields = {}
    for i = 1, #entry[2], 2 do fields[entry[2][i]] = entry[2][i + 1] end
    local facts = fields.facts or ''
    local lines = wanted_lines(facts)
    if lines ~= '' then
      add(entry[1])
      add(fields.at)
      add(fields.by)
      add(fields.basis)
      add(lines)
    end
    at, read, size = version_of(entry) - 1, read + 1, size + #facts
  end
end
reply[3] = format('%.0f', math.max(at, after))
return reply
