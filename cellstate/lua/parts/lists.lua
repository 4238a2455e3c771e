-- Short names, and lists of any length in commands.

local match, gmatch, find, sub, format = string.match, string.gmatch, string.find, string.sub, string.format
local byte, char, concat, floor = string.byte, string.char, table.concat, math.floor

-- unpack fails near 8,000 arguments (semantics 11): read in chunks.
local function fetch(key, fields)
  local n = #fields
  if n == 0 then return {} end
  if n == 1 then return { redis.call('HGET', key, fields[1]) } end
  if n <= 4000 then return redis.call('HMGET', key, unpack(fields)) end
  local all = {}
  for from = 1, n, 4000 do
    local to = math.min(from + 3999, n)
    local part = redis.call('HMGET', key, unpack(fields, from, to))
    for i = 1, to - from + 1 do all[from + i - 1] = part[i] end
  end
  return all
end

-- Run a command on a key with many words; they come in pairs, or single.
local function in_chunks(command, key, words)
  local n = #words
  if n == 0 then return end
  if n <= 4000 then
    redis.call(command, key, unpack(words))
    return
  end
  for from = 1, n, 4000 do redis.call(command, key, unpack(words, from, math.min(from + 3999, n))) end
end
