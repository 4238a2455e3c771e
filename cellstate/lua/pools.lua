-- Change the pools of a cell, by compare-and-set on the version of the last change.
--
-- KEYS   meta machines runs jobs specs jobnames kinds lanes lanenames pools trees changes log done recent history results housekeeping | wake:*
-- ARGV   dims tag at by check state gone closed moved bounds lines | field value…
-- check: the version that was read, "*" to replace a record that cannot be read, whatever its type; state: 0 none configured, 1 configured, 2 some carry limits or lend in part, or trees
-- divide the machines; gone: fields to delete; closed: pools (as in lanes) that hold no jobs afterwards; moved: pools whose
-- jobs, if there are any, run in another tree afterwards, "*" when machines may be in another tree; bounds: "FIELD words;…", the limits of
-- pools that carry some, and records without jobs of pools that lend in part and of their trees (parts/pools.lua); lines:
-- facts for the log. The caller has validated everything else (cellstate/pools/rules.py).
-- Reply  {"ok", version}, {"overtaken", version now}, or {"jobs", pool}: jobs are in a pool that may hold none
-- Types  pools: hash; others as in commit.lua
-- Rules  a pool that moves takes its running tasks along: what pools hold is summed anew from the lanes. Where jobs or
--        machines may be in another tree, no machine is in a tree until it was assigned anew (assign_trees.lua).

--@include lists listing binary rows named counters announce ranges records done pools lanes totals publish

if check ~= '*' then
  local version = redis.call('HGET', pools_key, 'version') or '0'
  if version ~= check then return { 'overtaken', version } end
end

-- The first of some pools that has jobs.
local function occupied(text)
  local among = {}
  for name in gmatch(text, '%S+') do among[name] = true end
  if not next(among) then return nil end
  local names = redis.call('HKEYS', lanenames_key)
  table.sort(names)
  for i = 1, #names do
    local leaf = pools.leaf_of({ name = names[i] })
    if among[leaf] then return leaf end
  end
  return nil
end
local holding = occupied(closed)
if holding then return { 'jobs', holding } end
local anew = moved == '*' or occupied(moved)

local fields, rows, chains = {}, {}, {}
for field in gmatch(gone, '%S+') do fields[#fields + 1] = field end
for i = fixed_args + 1, #ARGV, 2 do
  rows[#rows + 1], rows[#rows + 2] = ARGV[i], ARGV[i + 1]
end

if check == '*' then redis.call('DEL', pools_key) end
store(pools_key, rows)
in_chunks('HDEL', pools_key, fields)
if anew then redis.call('DEL', trees_key) end

-- What pools that carry limits hold, and what is occupied where pools lend in part, from the lanes.
local function sum_up()
  local fields, books = {}, {}
  for field, words in gmatch(bounds, '([bkt]%d+) ([^;]+)') do
    fields[#fields + 1], pools.books[field] = field, pools.read_book(field, words)
  end
  if #fields == 0 then return end
  local LANE, BYTES = '<' .. string.rep('i8', lanes.RUNNING), 8 * lanes.RUNNING
  local all = redis.call('HGETALL', lanes_key)
  for i = 1, #all, 2 do
    if all[i] ~= 'spare' then
      local leaf = 'c' .. pools.leaf_of({ name = sub(all[i + 1], BYTES + 1) })
      if chains[leaf] == nil then
        chains[leaf] = redis.call('HGET', pools_key, leaf) or redis.call('HGET', pools_key, 'c') or ''
      end
      if chains[leaf] ~= '' then
        local l, chain = { unpack_numbers(LANE, sub(all[i + 1], 1, BYTES)) }, pools.chain_of(chains[leaf])
        for _, book in ipairs(chain) do
          local used = book.used
          used[1], used[2] = used[1] + l[lanes.RUNNING], used[2] + l[lanes.TASKS]
          for d = 1, R do used[2 + d] = used[2 + d] + l[WANTED + R + d] end
        end
        for d = 1, chain.tree and R or 0 do pools.occupy_up(chain, d, l[WANTED + R + d], 'used') end
      end
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
announce('', at, by)
redis.call('HSET', pools_key, 'version', format('%d', meta.version))
return { 'ok', format('%d', meta.version) }
