-- Machines by shape, as sums of the cell have them (cellstate/pages.py): "state simulated capacity…" → how many there are.
-- "over": the indices of machines that held more than they had when their state or capacity changed last.

local shapes = {}
do
  local function shape_of(m)
    if m[STATE] == GONE then return false end
    return format('%d %d', m[STATE], m[EXECUTOR] % 2) .. capacity_of(m)
  end

  -- Called before the state, the executor or the capacity of a machine changes.
  function shapes.leave(m)
    if m.shape == nil then m.shape = shape_of(m) end
  end

  local function is_over(m)
    for d = 1, R do
      if m[USED + d] > m[CAPACITY + d] then return true end
    end
    return false
  end

  -- Count the machines that changed, after all else was written.
  function shapes.write()
    local counts, over, was = {}, false, false
    for i = 1, #touched do
      local m = touched[i]
      if m.shape ~= nil then
        local now = shape_of(m)
        if m.shape then counts[m.shape] = (counts[m.shape] or 0) - 1 end
        if now then counts[now] = (counts[now] or 0) + 1 end
        if not was then
          was, over = true, redis.call('HGET', shapes_key, 'over') or ' '
        end
        over = string.gsub(over, ' ' .. m.key .. ' ', ' ')
        if now and is_over(m) then over = over .. m.key .. ' ' end
      end
    end
    for shape, change in pairs(counts) do
      if change ~= 0 and redis.call('HINCRBY', shapes_key, shape, change) == 0 then redis.call('HDEL', shapes_key, shape) end
    end
    if was and over ~= ' ' then
      redis.call('HSET', shapes_key, 'over', over)
    elseif was then
      redis.call('HDEL', shapes_key, 'over')
    end
  end
end
