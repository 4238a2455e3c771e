-- Pools that carry limits: what their jobs may hold together, and hold (docs/pools.md, "Limits"). Nothing of this is
-- read while no pool of the cell carries a limit.
--   cNAME  of a leaf: the numbers of it and its ancestors that carry limits, upward; "c": of a pool not configured. In a
--          tree with pools that lend a part of their guarantee only: "/", the numbers of such pools, upward, ":tree"
--   bN     limits ("-" for none), then use: jobs with placed tasks, placed tasks, amount*R
--   kN     what pool N does not lend ("-": nothing), then what the pools and jobs below it occupy: amount*R each
--   tN     what tree N has at the last epoch ("-": not bounded), then what is occupied of it: amount*R each
-- A pool occupies the larger of what it does not lend and what is occupied below it; of a tree no more is occupied than
-- there is, so other pools leave free what a pool does not lend (docs/pools.md, "Limits").
-- Fields of the hash pools; the others are for people and schedulers (cellstate/pools/records.py).

local pools = { limited = false }
do
  local by_leaf, books, changed, lenders = {}, {}, {}, {}
  local WIDTH = 2 + R

  -- The leaf of a lane: its pool, else its user's.
  local function leaf_of(l)
    local pool, user = match(l.name, ' ([^ ,]*),([^ ,]*),[^ ,]*$')
    return 'c' .. (pool ~= '' and pool or user)
  end

  local function read_book(number, row)
    local b, words = { number = number, changed = false, limit = {}, used = {}, held = {} }, {}
    for word in gmatch(row, '%S+') do words[#words + 1] = tonumber(word) or false end
    for i = 1, WIDTH do
      b.limit[i], b.used[i] = words[i], words[WIDTH + i]
      b.held[i] = b.used[i]  -- the running copy of a commit
    end
    return b
  end

  -- A pool that lends in part, or a tree (name: its field): what it keeps or has, and what is occupied of it.
  local function read_lender(name, row)
    local found, words = { name = name, changed = false, bound = {}, used = {}, held = {} }, {}
    for word in gmatch(row, '%S+') do words[#words + 1] = tonumber(word) or false end
    for d = 1, R do
      found.bound[d], found.used[d] = words[d], words[R + d]
      found.held[d] = found.used[d]
    end
    return found
  end

  local function chain_of(text)
    local own, keepers, tree = match(text, '^([^/]*)/?([^:]*):?(.*)$')
    local chain = {}
    for number in gmatch(own, '%d+') do chain[#chain + 1] = books[number] end
    if tree ~= '' then
      chain.lent = {}
      for number in gmatch(keepers, '%d+') do chain.lent[#chain.lent + 1] = lenders['k' .. number] end
      chain.tree = lenders['t' .. tree]
    end
    return chain
  end

  -- What a chain names and is not loaded yet: fields of the hash.
  local function want(text, wanted)
    local own, keepers, tree = match(text, '^([^/]*)/?([^:]*):?(.*)$')
    for number in gmatch(own, '%d+') do
      if books[number] == nil then wanted[#wanted + 1], books[number] = 'b' .. number, false end
    end
    for number in gmatch(tree ~= '' and keepers or '', '%d+') do
      if lenders['k' .. number] == nil then wanted[#wanted + 1], lenders['k' .. number] = 'k' .. number, false end
    end
    if tree ~= '' and lenders['t' .. tree] == nil then
      wanted[#wanted + 1], lenders['t' .. tree] = 't' .. tree, false
    end
  end

  -- Give loaded lanes their chain: the books of the pools whose limits bind their jobs.
  function pools.load(all, numbers)
    local fields, wanted = { 'c' }, {}
    for i = 1, #numbers do
      local l = all[numbers[i]]
      if l and not l.chain then
        l.leaf = leaf_of(l)
        if by_leaf[l.leaf] == nil then fields[#fields + 1], by_leaf[l.leaf] = l.leaf, false end
      end
    end
    if #fields > 1 then
      local rows = fetch(pools_key, fields)
      for i = 2, #fields do
        by_leaf[fields[i]] = rows[i] or rows[1] or ''
        want(by_leaf[fields[i]], wanted)
      end
      rows = fetch(pools_key, wanted)
      for i = 1, #wanted do
        local number = sub(wanted[i], 2)
        if not rows[i] then
          -- a record that is missing bounds nothing
        elseif sub(wanted[i], 1, 1) == 'b' then
          books[number] = read_book(number, rows[i])
        else
          lenders[wanted[i]] = read_lender(wanted[i], rows[i])
        end
      end
    end
    for i = 1, #numbers do
      local l = all[numbers[i]]
      if l and not l.chain then l.chain = chain_of(by_leaf[l.leaf]) end
    end
  end

  -- The chain of a loaded lane; false when nothing binds its jobs.
  function pools.chain(l) return l and l.chain and (#l.chain > 0 or l.chain.tree) and l.chain end

  -- Count amounts of one resource as occupied, upward, in the running copy (what 'held') or in the records ('used').
  local function occupy_up(chain, d, more, what)
    for i = 1, #chain.lent do
      local k = chain.lent[i]
      if k and more ~= 0 then
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
      if k then left = left + math.max(0, (k.bound[d] or 0) - k.held[d]) end
    end
    return left
  end

  -- How many tasks of a group a chain still admits; fresh: its job has no placed tasks yet.
  function pools.admits(chain, g, fresh, vacated)
    local most = math.huge
    for i = 1, #chain do
      local limit, held = chain[i].limit, chain[i].held
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
      for i = 1, #l.chain.lent do
        if l.chain.lent[i] then note(l.chain.lent[i]) end
      end
      for d = 1, R do occupy_up(l.chain, d, g[NEED + d] * count, 'used') end
    end
  end

  function pools.book_job(l, count)
    for i = 1, #l.chain do
      note(l.chain[i])
      l.chain[i].used[1] = l.chain[i].used[1] + count
    end
  end

  local function bounds_and_use(bound, used, width)
    local words = {}
    for i = 1, width do
      words[i], words[width + i] = bound[i] and format('%.0f', bound[i]) or '-', format('%.0f', used[i])
    end
    return concat(words, ' ')
  end

  function pools.record(limit, used)
    return bounds_and_use(limit, used, WIDTH)
  end

  -- The record of a pool that lends in part, or of a tree.
  function pools.lender_record(bound, used)
    return bounds_and_use(bound, used, R)
  end

  function pools.write()
    local rows = {}
    for i = 1, #changed do
      local b = changed[i]
      rows[2 * i - 1] = b.name or 'b' .. b.number
      rows[2 * i] = b.name and pools.lender_record(b.bound, b.used) or pools.record(b.limit, b.used)
    end
    store(pools_key, rows)
  end

  pools.leaf_of, pools.read_lender, pools.chain_of = leaf_of, read_lender, chain_of
  pools.lenders, pools.occupy_up = lenders, occupy_up
end
