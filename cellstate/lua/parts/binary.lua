-- Numbers as eight bytes each, little-endian, all from 0 to 2^53. A server packs them itself (struct); fakeredis
-- has no struct, there Lua does.

-- How many of a list are unpacked at once: a C function of Lua returns some thousands of values at most.
--@const AT_ONCE 1500

local pack_numbers, unpack_numbers
do
  local struct = rawget(_G, 'struct')
  if struct then
    pack_numbers, unpack_numbers = struct.pack, struct.unpack
  else
    pack_numbers = function(_, ...)
      local bytes = {}
      for _, value in ipairs({ ... }) do
        for _ = 1, 8 do
          bytes[#bytes + 1] = string.char(value % 256)
          value = math.floor(value / 256)
        end
      end
      return table.concat(bytes)
    end
    unpack_numbers = function(_, text)
      local values = {}
      for at = 1, #text, 8 do
        local value = 0
        for i = at + 7, at, -1 do value = value * 256 + string.byte(text, i) end
        values[#values + 1] = value
      end
      return unpack(values)
    end
  end
end

-- All numbers of a text, as a list.
local function unpack_list(text)
  local n = #text / 8
  if n <= AT_ONCE then return { unpack_numbers('<' .. string.rep('i8', n), text) } end
  local list = {}
  for from = 0, n - 1, AT_ONCE do
    local count = math.min(AT_ONCE, n - from)
    local part = { unpack_numbers('<' .. string.rep('i8', count), sub(text, 8 * from + 1, 8 * (from + count))) }
    for i = 1, count do list[from + i] = part[i] end
  end
  return list
end
