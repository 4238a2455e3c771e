-- Assign machines to pool trees. Tasks of jobs of another tree are pending again, and leave their machine.
--
-- KEYS   meta machines runs placed jobs specs jobnames kinds lanes lanenames pools trees changes log done recent history results housekeeping waiters static
--        | box:* pending:* wake:* asleep owners
-- ARGV   dims tag at by version | triples
-- version: that of the pools by which the caller chose the trees. A triple is the index of a machine, the name and opaque
-- attributes from which its tree was chosen, and the number of the tree, "-" for none.
-- Reply  {"ok", machines assigned, tasks put back}, {"overtaken"} when the pools have another version, or {"keys", name…} with nothing done
-- Types  trees, static: hash; others as in commit.lua
-- Rules  a machine without an assigned tree takes no tasks where trees divide the machines, so no task starts on a machine
--        of another tree, whoever changes formulas or attributes. A machine whose attributes changed since they were read
--        is left out. A repeated call changes nothing (semantics 14).

--@include lists listing binary rows named counters
--@inner
--@include announce ranges records done pools lanes totals publish links placements losses copies tasks

if (redis.call('HGET', pools_key, 'version') or '0') ~= version then return { 'overtaken' } end
local wanted, described, chosen = {}, {}, {}
for i = fixed_args + 1, #ARGV, 3 do
  wanted[#wanted + 1], described[ARGV[i]], chosen[ARGV[i]] = ARGV[i], ARGV[i + 1], ARGV[i + 2]
end
load_machines(wanted)
local statics, trees, mine = fetch(static_key, wanted), fetch(trees_key, wanted), {}
for i, index in ipairs(wanted) do
  if M[index] and statics[i] == described[index] and trees[i] ~= chosen[index] then mine[#mine + 1] = index end
end
load_jobs_on(mine)
load_strict_gangs()
--@include ready
local numbers = {}
for _, j in pairs(J) do
  if j then numbers[#numbers + 1] = j.lane end
end
lanes.load(numbers)
pools.load(L, numbers)

local rows, count = {}, 0
for _, index in ipairs(mine) do
  local m = M[index]
  rows[#rows + 1], rows[#rows + 2] = index, chosen[index]
  touch(m, 1)
  fact(with_values('machine ' .. index .. ' tree ' .. chosen[index], m))
end
for _, index in ipairs(mine) do
  local m = M[index]
  for placement, id in gmatch(m.runs, ' (%d+):([^:]+):') do
    if J[id] and pools.tree(L[J[id].lane]) ~= chosen[index] then
      count = count + end_tasks(m, placement, '*', 'evicted', 'tree', 1)
      count = count + evict_gangs('tree', 1)
    end
  end
end
lack = end_waits()
if lack then return lack end
store(trees_key, rows)
if #mine > 0 then
  meta.transactions, freed = meta.transactions + 1, true
  publish(at, by, false)
end
return { 'ok', #mine, count }
