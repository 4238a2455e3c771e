-- How many of a list are unpacked at once: a C function of Lua returns some thousands of values at most.
--@const AT_ONCE 1500

-- All numbers of a text, as a list.
local layouts = {}
local function unpack_list(text)
  local n = #text / 8
  if n <= AT_ONCE then
    layouts[n] = layouts[n] or '<' .. string.rep('i8', n)
    return { unpack_numbers(layouts[n], text) }
  end
  local list = {}
  for from = 0, n - 1, AT_ONCE do
    local count = math.min(AT_ONCE, n - from)
    local part = { unpack_numbers('<' .. string.rep('i8', count), sub(text, 8 * from + 1, 8 * (from + count))) }
    for i = 1, count do list[from + i] = part[i] end
  end
  return list
end
