-- Of a cell in which some pools have limits, or trees divide the machines: the lane of a `record`, and its tree. The fast path
-- ends where limits or guarantees of pools bind the jobs of the lane: then its chain has numbers before the tree's (parts/pools.lua).
do
  local lane = unpack_numbers('<I4', record, LANE_AT)
  if not lane_rows[lane] then
    local row = redis.call('HGET', lanes_key, lane) or ''
    local pool, user = match(row, ' ([^ ,]*),([^ ,]*),[^ ,]*$', 8 * (7 + 2 * R) + 1)
    local chain = pool and redis.call('HGET', pools_key, 'c' .. (pool ~= '' and pool or user))
      or redis.call('HGET', pools_key, 'c') or ''
    lane_rows[lane] = pool and not find(chain, '^[^@]*%d') and row
    local tree = match(chain, '@(.*)$')
    lane_trees[lane], divided = tree, divided or tree ~= nil
  end
  fast = lane_rows[lane]
end
