-- Where the changes of a job are counted: `tally`, by its lane, kind and need (`bytes`).
-- The fast path ends when its kind has limits, or the queue of that was not given.
do
  if lane ~= tally_lane or bytes ~= tally_bytes then
    local l = lanes_of[lane]
    if l == nil then
      local row, k = lane_rows[lane] or redis.call('HGET', lanes_key, lane), kinds[kind]
      if k == nil then
        local queue = named['pending:' .. kind]
        local limited = limits and (not kinds_key or redis.call('HEXISTS', kinds_key, kind) == 1)
        k = queue and not limited and { queue, {} } or false
        kinds[kind] = k
      end
      l = row and k and { k, lane, sub(row, 8 * (7 + 2 * R) + 1), false, {}, unpack_numbers(LANE, row) } or false
      lanes_of[lane] = l
    end
    tally = l and l[L_TALLIES][bytes]
    if l and not tally then
      need = { unpack_numbers(NEEDS, bytes) }
      if R == 1 then need[2] = 0 end
      local large = false
      for d = 1, R do large = large or 255 * need[d] > MOST_WANTED end
      tally = { 0, 0, 0, 0, need, large, l }
      l[L_TALLIES][bytes] = tally
    end
    if tally then
      need = tally[T_NEED]
      tally_lane, tally_bytes, need1, need2 = lane, bytes, need[1], need[2]
    end
  end
end
