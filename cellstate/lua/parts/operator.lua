-- What an operator set of a machine, as `operator` has it: "amount*R", "-" for one that the machine's executor decides,
-- a line break, and opaque attributes. It outlives the executor and goes with the machine.

local function set_by_operator(index)
  local record = redis.call('HGET', operator_key, index)
  local amounts, attributes = match(record or '', '^([^\n]*)\n(.*)$')
  return amounts or sub(string.rep(' -', R), 2), attributes or ''
end

local function keep_for_operator(index, amounts, attributes)
  redis.call('HSET', operator_key, index, amounts .. '\n' .. attributes)
end
