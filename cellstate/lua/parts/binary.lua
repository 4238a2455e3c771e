-- Records as bytes, little-endian. Formats are those of the server's packer (struct): "I4" an unsigned number of so many
-- bytes, "i8" a number from 0 to 2^53, "c2" a text of two bytes, "I4c0" a text behind its length (both are given to pack,
-- unpack returns the text alone). Unpack returns where it ended as well. fakeredis has no struct, there Lua does it.

local pack_numbers, unpack_numbers
do
  local struct = rawget(_G, 'struct')
  if struct then
    pack_numbers, unpack_numbers = struct.pack, struct.unpack
  else
    local parsed = {}
    local function parts_of(layout)
      local parts = parsed[layout]
      if not parts then
        parts = {}
        for code, size in string.gmatch(layout, '([Iic])(%d+)') do
          parts[#parts + 1], parts[#parts + 2] = code, tonumber(size)
        end
        parsed[layout] = parts
      end
      return parts
    end
    pack_numbers = function(layout, ...)
      local bytes, parts = {}, parts_of(layout)
      for i = 1, #parts, 2 do
        local size, value = parts[i + 1], select((i + 1) / 2, ...)
        if parts[i] == 'c' then
          bytes[#bytes + 1] = size > 0 and string.sub(value, 1, size) or value
        else
          for _ = 1, size do
            bytes[#bytes + 1] = string.char(value % 256)
            value = math.floor(value / 256)
          end
        end
      end
      return table.concat(bytes)
    end
    unpack_numbers = function(layout, text, at)
      local values, n, parts = {}, 0, parts_of(layout)
      at = at or 1
      for i = 1, #parts, 2 do
        local size, value = parts[i + 1], 0
        if parts[i] == 'c' then
          if size == 0 then size, n = values[n], n - 1 end
          value = string.sub(text, at, at + size - 1)
        else
          for k = at + size - 1, at, -1 do value = value * 256 + string.byte(text, k) end
        end
        n, at = n + 1, at + size
        values[n] = value
      end
      values[n + 1] = at
      return unpack(values, 1, n + 1)
    end
  end
end
