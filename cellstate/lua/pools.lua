-- Change the pools of a cell, by compare-and-set on the version of the last change.
--
-- KEYS   meta machines runs jobs specs jobnames kinds lanes lanenames pools trees changes log done recent history results housekeeping | wake:*
-- ARGV   dims tag at by check state gone closed moved bounds lines settings | field value…
-- check: the version that was read, "*" to replace a record that cannot be read, whatever its type; state: 0 none configured, 1 configured, 2 some carry limits or lend in part, or trees
-- divide the machines; gone: fields to delete; closed: pools (as in lanes) that hold no jobs afterwards; moved: pools whose
-- jobs, if there are any, run in another tree afterwards, "*" when machines may be in another tree; bounds: "FIELD words;…", the limits of
-- pools that carry some, and records without jobs of pools that lend in part and of their trees (parts/pools.lua); lines:
-- facts for the log; settings: all pools for it (cellstate/logged_settings.py). The caller has validated everything else (cellstate/pools/rules.py).
-- Reply  {"ok", version}, {"overtaken", version now}, or {"jobs", pool}: jobs are in a pool that may hold none
-- Types  pools: hash; others as in commit.lua
-- Rules  a pool that moves takes its running tasks along: what pools hold is summed anew from the lanes. Where jobs or
--        machines may be in another tree, no machine is in a tree until it was assigned anew (assign_trees.lua).

--@include lists listing binary rows named counters
--@inner
--@include announce ranges records done pools lanes totals publish

if check ~= '*' then
  local version = redis.call('HGET', pools_key, 'version') or '0'
  if version ~= check then return { 'overtaken', version } end
end

-- The first of some pools that has jobs.
local function occupied(text)
  local among = {}
  for name in gmatch(text, '%S+') do among[name] = true end
  if not next(among) then return nil end
  local names, first = redis.call('HKEYS', lanenames_key), nil
  for i = 1, #names do
    local leaf = pools.leaf_of({ name = names[i] })
    if among[leaf] and (not first or leaf < first) then first = leaf end
  end
  return first
end
local holding = occupied(closed)
if holding then return { 'jobs', holding } end
local anew = moved == '*' or occupied(moved)

local fields, rows = {}, {}
for field in gmatch(gone, '%S+') do fields[#fields + 1] = field end
for i = fixed_args + 1, #ARGV, 2 do
  rows[#rows + 1], rows[#rows + 2] = ARGV[i], ARGV[i + 1]
end

if check == '*' then redis.call('DEL', pools_key) end
store(pools_key, rows)
in_chunks('HDEL', pools_key, fields)
if anew then redis.call('DEL', trees_key) end

-- What the lanes of each leaf hold together: running jobs, placed tasks, amount*R. Most lanes hold nothing.
local function held_by_leaf()
  local FROM, BYTES = 8 * (WANTED + R) + 1, 8 * lanes.RUNNING
  local NUMBERS, NOTHING = '<' .. string.rep('i8', R + 3), string.rep('\0', 8 * (R + 3))
  local all, leaves = redis.call('HGETALL', lanes_key), {}
  for i = 1, #all, 2 do
    local row = all[i + 1]
    local held = sub(row, FROM, BYTES)
    if all[i] ~= 'spare' and sub(held, 1, 8 * R) .. sub(held, 8 * R + 9) ~= sub(NOTHING, 9) then
      local leaf, numbers = 'c' .. pools.leaf_of({ name = sub(row, BYTES + 1) }), { unpack_numbers(NUMBERS, held) }
      local sums = leaves[leaf] or { 0, 0 }
      leaves[leaf] = sums
      sums[1], sums[2] = sums[1] + numbers[R + 3], sums[2] + numbers[R + 2]
      for d = 1, R do sums[2 + d] = (sums[2 + d] or 0) + numbers[d] end
    end
  end
  return leaves
end

-- What pools that carry limits hold, and what is occupied where pools lend in part, from the lanes.
local function sum_up()
  local fields, books = {}, {}
  for field, words in gmatch(bounds, '([bkt]%d+) ([^;]+)') do
    fields[#fields + 1], pools.books[field] = field, pools.read_book(field, words)
  end
  if #fields == 0 then return end
  for leaf, held in pairs(held_by_leaf()) do
    local text = redis.call('HGET', pools_key, leaf) or redis.call('HGET', pools_key, 'c') or ''
    if text ~= '' then
      local chain = pools.chain_of(text)
      for _, book in ipairs(chain) do
        for k = 1, 2 + R do book.used[k] = book.used[k] + held[k] end
      end
      for d = 1, chain.tree and R or 0 do pools.occupy_up(chain, d, held[2 + d], 'used') end
    end
  end
  for i, field in ipairs(fields) do
    books[2 * i - 1], books[2 * i] = field, pools.record(pools.books[field].bound, pools.books[field].used)
  end
  store(pools_key, books)
end
sum_up()

meta.pools = tonumber(state)
for line in gmatch(lines, '[^\n]+') do fact(line) end
for name, key in pairs(named) do
  if match(name, '^wake:') then wake(key) end
end
announce('', at, by, 'settings', settings)
redis.call('HSET', pools_key, 'version', format('%d', meta.version))
return { 'ok', format('%d', meta.version) }
