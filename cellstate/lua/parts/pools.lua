-- Pools that carry limits: what their jobs may hold together, and hold (docs/pools.md, "Limits"). Nothing of this is
-- read while no pool of the cell carries a limit.
--   cNAME  of a leaf: the numbers of it and its ancestors that carry limits, upward; "c": of a pool not configured
--   bN     limits ("-" for none), then use: jobs with placed tasks, placed tasks, amount*R
-- Fields of the hash pools; the others are for people and schedulers (cellstate/pool_records.py).

local pools = { limited = false }
do
  local by_leaf, books, changed = {}, {}, {}
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

  local function chain_of(text)
    local chain = {}
    for number in gmatch(text, '%d+') do chain[#chain + 1] = books[number] end
    return chain
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
        for number in gmatch(by_leaf[fields[i]], '%d+') do
          if books[number] == nil then wanted[#wanted + 1], books[number] = 'b' .. number, false end
        end
      end
      rows = fetch(pools_key, wanted)
      for i = 1, #wanted do
        local number = sub(wanted[i], 2)
        if rows[i] then books[number] = read_book(number, rows[i]) end
      end
    end
    for i = 1, #numbers do
      local l = all[numbers[i]]
      if l and not l.chain then l.chain = chain_of(by_leaf[l.leaf]) end
    end
  end

  -- The chain of a loaded lane; false when nothing binds its jobs.
  function pools.chain(l) return l and l.chain and #l.chain > 0 and l.chain end

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
    return most
  end

  -- Count tasks of a group in the running copy, and jobs.
  function pools.hold(chain, g, count)
    for i = 1, #chain do
      local held = chain[i].held
      held[2] = held[2] + count
      for d = 1, R do held[2 + d] = held[2 + d] + g[NEED + d] * count end
    end
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
  end

  function pools.book_job(l, count)
    for i = 1, #l.chain do
      note(l.chain[i])
      l.chain[i].used[1] = l.chain[i].used[1] + count
    end
  end

  function pools.record(limit, used)
    local words = {}
    for i = 1, WIDTH do
      words[i], words[WIDTH + i] = limit[i] and format('%.0f', limit[i]) or '-', format('%.0f', used[i])
    end
    return concat(words, ' ')
  end

  function pools.write()
    local rows = {}
    for i = 1, #changed do
      rows[2 * i - 1], rows[2 * i] = 'b' .. changed[i].number, pools.record(changed[i].limit, changed[i].used)
    end
    store(pools_key, rows)
  end

  pools.leaf_of = leaf_of
end
