-- Lists of any length in commands and replies, and lists of fields to read.

local function store(key, pairs_flat) in_chunks('HSET', key, pairs_flat) end

-- A reply: its first words, then a list that may be longer than unpack takes.
local function answering(words, list)
  for i = 1, #list do words[#words + 1] = list[i] end
  return words
end

-- The wanted fields that were not read yet; each is marked as absent until it is found.
local function missing(wanted, known)
  local list, n = {}, 0
  for i = 1, #wanted do
    local field = wanted[i]
    if known[field] == nil then
      n = n + 1
      list[n], known[field] = field, false
    end
  end
  return list
end
