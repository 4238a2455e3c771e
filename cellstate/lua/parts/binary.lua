-- Numbers as eight bytes each, little-endian, all from 0 to 2^53. A server packs them itself (struct); fakeredis
-- has no struct, there Lua does.

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
