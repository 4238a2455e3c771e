-- Executors run the tasks of machines. An executor lives from its registration (register_agent.lua, register_executor.lua)
-- until it leaves or its lease is found expired (deregister_executor.lua): meanwhile `serving` has its number, with its
-- name, and why it cannot start tasks if it says so (unfit.lua). Agents, "agent/NAME", run commands; all others simulate.

-- The number of an executor, and whether it has it already: the n-th is 2n, or 2n - 1 when it simulates.
local function number_of(executor)
  local known = redis.call('HGET', executors_key, executor)
  if known then return tonumber(known), true end
  local n = redis.call('HLEN', executors_key) + 1
  return sub(executor, 1, 6) == 'agent/' and 2 * n or 2 * n - 1, false
end

local function lives(number) return redis.call('HEXISTS', serving_key, format('%d', number)) == 1 end

-- The state of a machine of this executor that no operator set otherwise.
local function own_state(number)
  local name = redis.call('HGET', serving_key, format('%d', number))
  return not name and OFFLINE or find(name, ' ', 1, true) and UNFIT or UP
end

-- Record that an executor lives.
local function serve(executor)
  local number, known = number_of(executor)
  local text = format('%d', number)
  if not known then redis.call('HSET', executors_key, executor, text) end
  redis.call('HSET', serving_key, text, executor)
end
