-- Stands for the packer of numbers that servers have and fakeredis lacks: formats of "I4" unsigned numbers of so many bytes, "i8"
-- signed ones, "c2" texts, "I4c0" texts behind their length, "x" a byte that is passed over (when numbers are read).
local parsed = {}
local function parts_of(layout)
  local parts = parsed[layout]
  if not parts then
    parts = {}
    for code, size in string.gmatch(layout, '([Iicx])(%d*)') do
      parts[#parts + 1], parts[#parts + 2] = code, tonumber(size) or 1
    end
    parsed[layout] = parts
  end
  return parts
end
struct = {
  pack = function(layout, ...)
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
  end,
  unpack = function(layout, text, at)
    local values, n, parts = {}, 0, parts_of(layout)
    at = at or 1
    for i = 1, #parts, 2 do
      local size, value = parts[i + 1], 0
      if parts[i] == 'c' then
        if size == 0 then size, n = values[n], n - 1 end
      end
      if at + size - 1 > #text then error('data string too short') end
      if parts[i] == 'c' then
        value = string.sub(text, at, at + size - 1)
      else
        for k = at + size - 1, at, -1 do value = value * 256 + string.byte(text, k) end
        if parts[i] == 'i' and value >= 2 ^ (8 * size - 1) then value = value - 2 ^ (8 * size) end
      end
      at = at + size
      if parts[i] ~= 'x' then
        n = n + 1
        values[n] = value
      end
    end
    values[n + 1] = at
    return unpack(values, 1, n + 1)
  end,
}
