-- Sets of task indices as text: "0-9,12", "-" when empty. Ascending, never touching.

local function spans(text)
  local list = {}
  for a, b in gmatch(text, '(%d+)%-?(%d*)') do
    a = tonumber(a)
    list[#list + 1] = { a, b == '' and a or tonumber(b) }
  end
  return list
end

-- The text of a list of spans, from its first or a later one on.
local function spell(list, from)
  from = from or 1
  if #list < from then return '-' end
  local parts = {}
  for i = from, #list do
    local s = list[i]
    parts[i - from + 1] = s[1] == s[2] and format('%d', s[1]) or format('%d-%d', s[1], s[2])
  end
  return concat(parts, ',')
end

local function span_count(text)
  local a, b = match(text, '^(%d+)%-?(%d*)$')
  if a then return b == '' and 1 or b - a + 1 end
  local n = 0
  for _, s in ipairs(spans(text)) do n = n + s[2] - s[1] + 1 end
  return n
end

-- The first k of text, and what is left. k is from 0 to the count of text.
local function span_take(text, k)
  if k == 0 then return '-', text end
  local a, b = match(text, '^(%d+)%-(%d+)$')
  if a then
    a, b = tonumber(a), tonumber(b)
    if b - a + 1 == k then return text, '-' end
    local taken = k == 1 and format('%d', a) or format('%d-%d', a, a + k - 1)
    return taken, (a + k == b) and format('%d', b) or format('%d-%d', a + k, b)
  end
  local taken, rest = {}, {}
  for _, s in ipairs(spans(text)) do
    local size = s[2] - s[1] + 1
    if k >= size then
      taken[#taken + 1] = s
      k = k - size
    elseif k > 0 then
      taken[#taken + 1] = { s[1], s[1] + k - 1 }
      rest[#rest + 1] = { s[1] + k, s[2] }
      k = 0
    else
      rest[#rest + 1] = s
    end
  end
  return spell(taken), spell(rest)
end

-- The union of two disjoint sets; the second may be in any order.
local function span_add(text, more)
  if text == '-' and not find(more, ',', 1, true) then return more end
  local list = spans(text)
  for _, s in ipairs(spans(more)) do list[#list + 1] = s end
  table.sort(list, function(x, y) return x[1] < y[1] end)
  local joined = { list[1] }
  for i = 2, #list do
    local last = joined[#joined]
    if list[i][1] == last[2] + 1 then last[2] = list[i][2] else joined[#joined + 1] = list[i] end
  end
  return spell(joined)
end

-- What of part, in ascending order, lies in text, and text without it.
local function span_split(text, part)
  if text == part then return text, '-' end
  local inside, rest = {}, {}
  local cuts, at = spans(part), 1
  for _, s in ipairs(spans(text)) do
    local from = s[1]
    while cuts[at] and cuts[at][2] < from do at = at + 1 end
    local i = at
    while cuts[i] and cuts[i][1] <= s[2] do
      local a, b = math.max(cuts[i][1], from), math.min(cuts[i][2], s[2])
      if a <= b then
        if from < a then rest[#rest + 1] = { from, a - 1 } end
        inside[#inside + 1] = { a, b }
        from = b + 1
      end
      i = i + 1
    end
    if from <= s[2] then rest[#rest + 1] = { from, s[2] } end
  end
  return spell(inside), spell(rest)
end

-- The last k of text (victims go newest index first), and what is left.
local function span_tail(text, k)
  local rest, tail = span_take(text, span_count(text) - k)
  return tail, rest
end
