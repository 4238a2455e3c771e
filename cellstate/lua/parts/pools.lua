-- Pools that carry limits: what their jobs may hold together, and hold (docs/pools.md, "Limits"). Nothing of this is
-- read while no pool of the cell carries a limit and one tree has all machines.
--   cNAME  of a leaf: the numbers of it and its ancestors that carry limits, upward; "c": of a pool not configured. In a
--          tree with pools that lend a part of their guarantee only: "/", the numbers of such pools, upward, ":tree".
--          Where trees divide the machines: "@" and the number of its tree, in which alone its jobs may run
--   bN     limits ("-" for none), then use: jobs with placed tasks, placed tasks, amount*R
--   kN     what pool N does not lend ("-": nothing), then what the pools and jobs below it occupy: amount*R each
--   tN     what tree N has at the last epoch ("-": not bounded), then what is occupied of it: amount*R each
-- A pool occupies the larger of what it does not lend and what is occupied below it; of a tree no more is occupied than
-- there is, so other pools leave free what a pool does not lend (docs/pools.md, "Limits").
-- Fields of the hash pools; the others are for people and schedulers (cellstate/pools/records.py).

local pools = { limited = false, divided = false }
--@lazy pools
local by_leaf, books, changed = {}, {}, {}

-- The leaf of a lane: its pool, else its user's.
local function leaf_of(l)
  local pool, user = match(l.name, ' ([^ ,]*),([^ ,]*),[^ ,]*$')
  return pool ~= '' and pool or user
end

-- A record by its field: its bounds, its use (none: 0), and the running copy of that in a commit.
local function read_book(field, row)
  local b, words = { field = field, changed = false, bound = {}, used = {}, held = {} }, {}
  for word in gmatch(row, '%S+') do words[#words + 1] = tonumber(word) or false end
  local width = sub(field, 1, 1) == 'b' and 2 + R or R
  for i = 1, width do
    local use = words[width + i] or 0
    b.bound[i], b.used[i], b.held[i] = words[i], use, use
  end
  return b
end

-- The fields that a chain names: limits; pools that lend in part; their tree, false when there are none.
local function fields_of(text)
  local own, keepers, tree = match(text, '^([^/@]*)/?([^:@]*):?([^@]*)')
  local limits, lent = {}, {}
  for number in gmatch(own, '%d+') do limits[#limits + 1] = 'b' .. number end
  for number in gmatch(keepers, '%d+') do lent[#lent + 1] = 'k' .. number end
  return limits, lent, tree ~= '' and 't' .. tree
end

-- The loaded records of a chain; one that is missing bounds nothing.
local function chain_of(text)
  local limits, lent, tree = fields_of(text)
  local chain = { lent = {}, tree = tree and books[tree] }
  for _, field in ipairs(limits) do chain[#chain + 1] = books[field] or nil end
  for _, field in ipairs(lent) do chain.lent[#chain.lent + 1] = books[field] or nil end
  return chain
end

-- Give loaded lanes their chain: the books of the pools whose limits bind their jobs.
function pools.load(all, numbers)
  local fields, wanted = { 'c' }, {}
  for i = 1, #numbers do
    local l = all[numbers[i]]
    if l and not l.chain then
      l.leaf = 'c' .. leaf_of(l)
      if by_leaf[l.leaf] == nil then fields[#fields + 1], by_leaf[l.leaf] = l.leaf, false end
    end
  end
  if #fields > 1 then
    local rows = fetch(pools_key, fields)
    for i = 2, #fields do
      by_leaf[fields[i]] = rows[i] or rows[1] or ''
      local limits, lent, tree = fields_of(by_leaf[fields[i]])
      answering(answering(wanted, limits), lent)
      if tree then wanted[#wanted + 1] = tree end
    end
    wanted = missing(wanted, books)
    rows = fetch(pools_key, wanted)
    for i = 1, #wanted do books[wanted[i]] = rows[i] and read_book(wanted[i], rows[i]) end
  end
  for i = 1, #numbers do
    local l = all[numbers[i]]
    if l and not l.chain then
      l.chain, l.tree = chain_of(by_leaf[l.leaf]), match(by_leaf[l.leaf], '@(%d+)$')
      pools.divided = pools.divided or l.tree ~= nil
    end
  end
end

-- The number of the tree in which alone the jobs of a loaded lane may run, as text; nil when that is anywhere.
function pools.tree(l) return l and l.tree end

-- The chain of a loaded lane; false when nothing binds its jobs.
function pools.chain(l) return l and l.chain and (#l.chain > 0 or l.chain.tree) and l.chain end

-- Count amounts of one resource as occupied, upward, in the running copy (what 'held') or in the records ('used').
local function occupy_up(chain, d, more, what)
  for i = 1, #chain.lent do
    local k = chain.lent[i]
    if more ~= 0 then
      local kept, before = k.bound[d] or 0, k[what][d]
      k[what][d] = before + more
      more = math.max(kept, before + more) - math.max(kept, before)
    end
  end
  if chain.tree then chain.tree[what][d] = chain.tree[what][d] + more end
end

-- How much of a resource a chain may take before other pools would have less than they do not lend.
local function room_of(chain, d)
  local tree = chain.tree
  if not tree or not tree.bound[d] then return math.huge end
  local left = math.max(0, tree.bound[d] - tree.held[d])
  for i = 1, #chain.lent do
    local k = chain.lent[i]
    left = left + math.max(0, (k.bound[d] or 0) - k.held[d])
  end
  return left
end

-- How many tasks of a group a chain still admits; fresh: its job has no placed tasks yet.
function pools.admits(chain, g, fresh, vacated)
  local most = math.huge
  for i = 1, #chain do
    local limit, held = chain[i].bound, chain[i].held
    if fresh and limit[1] and held[1] - (vacated and vacated[chain[i]] or 0) >= limit[1] then return 0 end
    if limit[2] then most = math.min(most, math.max(0, limit[2] - held[2])) end
    for d = 1, R do
      local bound, need = limit[2 + d], g[NEED + d]
      if bound and need > 0 then most = math.min(most, math.max(0, floor((bound - held[2 + d]) / need))) end
    end
  end
  for d = 1, chain.tree and R or 0 do
    if g[NEED + d] > 0 then most = math.min(most, floor(room_of(chain, d) / g[NEED + d])) end
  end
  return most
end

-- Count tasks of a group in the running copy, and jobs.
function pools.hold(chain, g, count)
  for i = 1, #chain do
    local held = chain[i].held
    held[2] = held[2] + count
    for d = 1, R do held[2 + d] = held[2 + d] + g[NEED + d] * count end
  end
  for d = 1, chain.tree and R or 0 do occupy_up(chain, d, g[NEED + d] * count, 'held') end
end

function pools.hold_job(chain, count)
  for i = 1, #chain do chain[i].held[1] = chain[i].held[1] + count end
end

local function note(b)
  if not b.changed then
    b.changed = true
    changed[#changed + 1] = b
  end
end

-- Book what changed of a job, when its lane is written.
function pools.book(l, g, count)
  for i = 1, #l.chain do
    local b = l.chain[i]
    note(b)
    b.used[2] = b.used[2] + count
    for d = 1, R do b.used[2 + d] = b.used[2 + d] + g[NEED + d] * count end
  end
  if l.chain.tree then
    note(l.chain.tree)
    for i = 1, #l.chain.lent do note(l.chain.lent[i]) end
    for d = 1, R do occupy_up(l.chain, d, g[NEED + d] * count, 'used') end
  end
end

function pools.book_job(l, count)
  for i = 1, #l.chain do
    note(l.chain[i])
    l.chain[i].used[1] = l.chain[i].used[1] + count
  end
end

function pools.record(bound, used)
  local words, width = {}, #used
  for i = 1, width do
    words[i], words[width + i] = bound[i] and format('%.0f', bound[i]) or '-', format('%.0f', used[i])
  end
  return concat(words, ' ')
end

function pools.write()
  local rows = {}
  for i = 1, #changed do
    local b = changed[i]
    rows[2 * i - 1], rows[2 * i] = b.field, pools.record(b.bound, b.used)
  end
  store(pools_key, rows)
end

pools.leaf_of, pools.read_book, pools.chain_of, pools.books, pools.occupy_up = leaf_of, read_book, chain_of, books, occupy_up
