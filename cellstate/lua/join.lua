-- Add machines to the cell, or bring removed ones back under their name, perhaps with another capacity.
--
-- KEYS   meta machines runs jobs specs jobnames kinds lanes lanenames pools changes log done recent history results housekeeping shapes names static trees executors serving drains operator
--        | box:* wake:* asleep owners
-- ARGV   dims tag at by executor attributes | triples
-- attributes: for the log, those of all machines (cellstate/logged_settings.py).
-- A triple is "name capacity*R", the machine's opaque attributes, and what an operator set of it, which both respect;
-- empty for nothing. All belong to one executor.
-- Reply  {"ok", version, executor number, index…}, or with nothing done {"busy", name} when tasks of another executor are
--        still on that machine, {"set", (name, record)…} of machines of which an operator set something else,
--        {"sum", resource} (too much together), {"keys", name…}
-- Types  names, static, executors, serving, operator: hash; others as in commit.lua
-- Rules  a machine is up when its executor lives, unfit when that cannot start tasks, else offline (semantics 31); what an operator set of one that is not
--        gone stays: drained or down, amounts, attributes (36). A machine that was gone continues above
--        its old number and above every transaction so far: no ABA for coarse detection (10); one that holds more
--        than it now has is over (5).
--        A machine that is there already just so changes nothing (14). Other attributes: as in describe.lua.

--@include lists listing binary rows named counters
--@inner
--@include announce ranges records done pools lanes totals publish shapes sums serving operator

local owner, known_owner = number_of(executor)
local state = own_state(owner)
local wanted, names, capacities, opaque, set = {}, {}, {}, {}, {}
for i = fixed_args + 1, #ARGV, 3 do
  local name, capacity = match(ARGV[i], '^(%S+) (.*)$')
  local n = #names + 1
  names[n], capacities[n], opaque[n], set[n] = name, capacity, ARGV[i + 1], ARGV[i + 2]
end
local known = fetch(names_key, names)
for i in ipairs(names) do
  if known[i] then wanted[#wanted + 1] = known[i] end
end
load_machines(wanted)
local statics = fetch(static_key, wanted)
for i, index in ipairs(wanted) do M[index].static = statics[i] end
local lack = lacking()
if lack then return lack end
for i, name in ipairs(names) do
  local m = known[i] and M[known[i]]
  if m and m[EXECUTOR] ~= owner and m.runs ~= '' then return { 'busy', name } end
end
local settings, others = fetch(operator_key, wanted), {}
do
  local of = {}
  for i, index in ipairs(wanted) do of[index] = settings[i] end
  for i, name in ipairs(names) do
    local now = known[i] and of[known[i]] or ''
    if now ~= set[i] then
      others[#others + 1] = name
      others[#others + 1] = now
    end
  end
end
if #others > 0 then return answering({ 'set' }, others) end

local function set_capacity(m, amounts)
  local d = CAPACITY
  for amount in gmatch(amounts, '%d+') do
    d = d + 1
    m[d] = tonumber(amount)
  end
end

-- The state of a machine afterwards: that which an operator set stays.
local function state_of(m)
  if m[STATE] == DRAINED or m[STATE] == DOWN then return m[STATE] end
  return state
end

local function is_so(m, capacity, static)
  return m[STATE] == state_of(m) and m[EXECUTOR] == owner and m.static == static and capacity_of(m) == ' ' .. capacity
end

local next_index = redis.call('HLEN', names_key)
local named_rows, static_rows, indices, seen, before, unassigned, rejoined = {}, {}, {}, {}, '', {}, {}
for i, name in ipairs(names) do
  local index, static = known[i] or seen[name], name .. '\n' .. opaque[i]
  local same = index and is_so(M[index], capacities[i], static)
  if index and not same then
    local m = M[index]
    if m[STATE] == GONE then m[NUMBER] = math.max(m[NUMBER], meta.transactions) end
    touch(m, 1)
    shapes.leave(m)
    m[STATE], m[EXECUTOR] = state_of(m), owner
    if m[STATE] ~= DRAINED then rejoined[#rejoined + 1] = index end
    set_capacity(m, capacities[i])
  elseif not same then
    index = format('%d', next_index)
    local m = machine_of(index, '', next_index, meta.transactions, state, owner)
    set_capacity(m, capacities[i])
    for d = 1, R do m[USED + d] = 0 end
    next_index, seen[name], M[index], m.shape = next_index + 1, index, m, false
    touch(m, 1)
    named_rows[#named_rows + 1] = name
    named_rows[#named_rows + 1] = index
  end
  if not same then
    if known[i] and M[index].static ~= static then
      before = before .. restated(M[index])
      unassigned[#unassigned + 1] = index
    end
    M[index].static = static
    fact(format('join %s %s %d %s', index, name, M[index][NUMBER], (string.gsub(capacities[i], ' ', ','))))
    local after = M[index][STATE]
    if after ~= UP then fact(with_values(format('machine %s state %d', index, after), M[index])) end
    static_rows[#static_rows + 1] = index
    static_rows[#static_rows + 1] = static
  end
  indices[i] = index
end
local excess = too_much(touched)
if excess then return { 'sum', excess } end
if not known_owner then redis.call('HSET', executors_key, executor, format('%d', owner)) end
if #touched > 0 then
  store(names_key, named_rows)
  store(static_key, static_rows)
  in_chunks('HDEL', trees_key, unassigned)
  in_chunks('HDEL', drains_key, rejoined)
  meta.transactions, freed = meta.transactions + 1, true
  publish(at, by, false, before, 'settings', attributes)
  shapes.write()
end
return answering({ 'ok', format('%d', meta.version), format('%d', owner) }, indices)
