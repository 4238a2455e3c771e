-- Machines join the cell, or come back (perhaps with another capacity) under their name.
--
-- KEYS   meta machines runs jobs specs jobnames kinds changes log done names static executors | box:*
-- ARGV   dims tag at by executor | pairs
-- A pair is "name capacity*R" and the machine's opaque attributes. All belong to one executor.
-- Reply  {"ok", version, executor number, index…}, or {"keys", name…} with nothing done
-- Types  names, static, executors: hash; others as in commit.lua
-- Rules  a machine that was gone continues above its old number and above every transaction so far:
--        no ABA for coarse detection (semantics 10); one that holds more than it now has is over (5).
--        A machine that is there already just so changes nothing (14).

--@include words ranges publish

local owner = redis.call('HGET', executors_key, executor)
if not owner then
  owner = tostring(redis.call('HLEN', executors_key) + 1)
  redis.call('HSET', executors_key, executor, owner)
end
local wanted, names, capacities, opaque = {}, {}, {}, {}
for i = fixed_args + 1, #ARGV, 2 do
  local name, capacity = match(ARGV[i], '^(%S+) (.*)$')
  names[#names + 1], capacities[#capacities + 1], opaque[#opaque + 1] = name, capacity, ARGV[i + 1]
end
local known = fetch(names_key, names)
for i in ipairs(names) do
  if known[i] then wanted[#wanted + 1] = known[i] end
end
load_machines(wanted)
local statics = fetch(static_key, wanted)
for i, index in ipairs(wanted) do M[index].static = statics[i] end
local lack = lacking()
if #lack > 0 then return answering({ 'keys' }, lack) end

local function is_so(m, capacity, static)
  return m[3] == UP and m[4] == owner and m.static == static and concat(m, ' ', 5, 4 + R) == capacity
end

local next_index = redis.call('HLEN', names_key)
local named_rows, static_rows, indices, zeros, seen = {}, {}, {}, string.rep(' 0', R), {}
for i, name in ipairs(names) do
  local index, static = known[i] or seen[name], name .. '\n' .. opaque[i]
  local same = index and is_so(M[index], capacities[i], static)
  if index and not same then
    local m = M[index]
    if m[3] == GONE then m.number = math.max(m.number, meta.transactions) end
    touch(m, 1)
    m[3], m[4] = UP, owner
    local d = 0
    for amount in gmatch(capacities[i], '%d+') do
      d = d + 1
      m[4 + d] = tonumber(amount)
    end
  elseif not same then
    index = tostring(next_index)
    next_index, seen[name] = next_index + 1, index
    local m = { match(index .. ' ' .. meta.transactions .. ' 0 ' .. owner .. ' ' .. capacities[i] .. zeros, MACHINE) }
    m.number, m.own, m.runs = meta.transactions, 0, ''
    for d = 1, R do m[USED + d] = 0 end
    M[index] = m
    touch(m, 1)
    named_rows[#named_rows + 1] = name
    named_rows[#named_rows + 1] = index
  end
  if not same then
    M[index].static = static
    fact('join ' .. index .. ' ' .. name .. ' ' .. M[index].number .. ' ' .. capacities[i])
    static_rows[#static_rows + 1] = index
    static_rows[#static_rows + 1] = static
  end
  indices[i] = index
end
if #touched > 0 then
  store(names_key, named_rows)
  store(static_key, static_rows)
  meta.transactions = meta.transactions + 1
  publish(at, by, false)
end
return answering({ 'ok', string.format('%.0f', meta.version), owner }, indices)
