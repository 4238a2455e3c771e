-- Sums stay exact below 2^53 (semantics 12): what a kind uses, or all machines together, is bounded by what they have.
-- A million machines of at most BIG of a resource have 4 * 10^15 of it; all are added up only when one has more.

--@const BIG 4000000000, MOST_TOGETHER 5000000000000000

-- Which resource, from 1, the machines would have too much of together with these as they are in this call; nil: none.
local function too_much(changed)
  local large, mine, sums = false, {}, {}
  local function add(m)
    for d = 1, R do sums[d] = (sums[d] or 0) + math.max(m[CAPACITY + d], m[USED + d]) end
  end
  for _, m in ipairs(changed) do
    for d = 1, R do large = large or m[CAPACITY + d] > BIG end
    mine[m.key] = true
    add(m)
  end
  if not large then return nil end
  local rows = redis.call('HGETALL', machines_key)
  for i = 1, #rows, 2 do
    local m = not mine[rows[i]] and { unpack_numbers(MACHINE, rows[i + 1]) }
    if m and m[STATE] ~= GONE then add(m) end
  end
  for d = 1, R do
    if sums[d] > MOST_TOGETHER then return d end
  end
end
