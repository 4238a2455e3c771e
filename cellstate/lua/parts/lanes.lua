-- Lanes: the live jobs of one kind, pool, user, precedence and class of expected duration are counted together, and
-- the pending ones are read from the queue of their kind lane by lane (docs/decisions/0019).
--   lane   "index serial pending arrival wanted*R held*R live tasks running" of eight bytes each, then its name; index:
--          2^40 + its number; serial: no other lane of this number ever had it; pending: jobs; arrival: of the last job
--          that became pending; wanted, held: what tasks that are not placed, and those that are, need; live: jobs;
--          tasks: placed tasks, copies too; running: jobs with placed tasks
-- The numbers up to held are a row of the change list, as wide as that of a machine.
-- A job's score in the queue of its kind is its lane (15 bits), its bucket (5) and its arrival (33): exact in a double.
-- What a job wants counts no further than MOST_WANTED a group and amount, so that sums stay exact.

local L = {}
local lanes = { changed = {}, spare = false, LIVE = 5 + 2 * R, TASKS = 6 + 2 * R, RUNNING = 7 + 2 * R }  -- spare: the free numbers, once they were read
do
  local HOLDS, LIVE, TASKS, RUNNING = WANTED + R, lanes.LIVE, lanes.TASKS, lanes.RUNNING
  local LANE, LANE_BYTES, LANE_ROW = '<' .. string.rep('i8', RUNNING), 8 * RUNNING, 8 * (4 + 2 * R)

  function lanes.load(wanted)
    local list = missing(wanted, L)
    local rows = fetch(lanes_key, list)
    for i = 1, #list do
      local row, number = rows[i], list[i]
      if row then
        local l = { unpack_numbers(LANE, sub(row, 1, LANE_BYTES)) }
        l.number, l.name, l.changed = number, sub(row, LANE_BYTES + 1), false
        L[number] = l
      end
    end
  end

  function lanes.change(l)
    if not l.changed then
      l.changed = true
      lanes.changed[#lanes.changed + 1] = l
    end
  end

  function lanes.want(l, g, before, after)
    for d = 1, R do
      local need = g[NEED + d]
      if need > 0 then
        l[WANTED + d] = l[WANTED + d] + math.min(MOST_WANTED, need * after) - math.min(MOST_WANTED, need * before)
      end
    end
  end

  -- What changed of a job changes its lane.
  function lanes.count(l, j)
    lanes.change(l)
    local before, after = 0, 0
    for i = 1, #j.groups do
      local g = j.groups[i]
      -- Copies are no demand; they hold room and are counted like tasks, as in their pools, which are summed from lanes.
      if g[OPTIONAL] ~= COPIES and g.wanted ~= g[UNPLACED] then lanes.want(l, g, g.wanted, g[UNPLACED]) end
      local more = g[PLACED] - g.held
      before, after = before + g.held, after + g[PLACED]
      if more ~= 0 then
        for d = 1, R do l[HOLDS + d] = l[HOLDS + d] + g[NEED + d] * more end
        if pools.limited then pools.book(l, g, more) end
      end
      g.wanted, g.held = g[UNPLACED], g[PLACED]
    end
    l[TASKS] = l[TASKS] + after - before
    local running = (after > 0 and 1 or 0) - (before > 0 and 1 or 0)
    if running ~= 0 then
      l[RUNNING] = l[RUNNING] + running
      if pools.limited then pools.book_job(l, running) end
    end
  end

  function lanes.score(j, arrival)
    return format('%d', j.lane * LANE_SPAN + j.bucket * BUCKET_SPAN + arrival)
  end

  -- Write the lanes that changed; returns their rows. One without live jobs is forgotten, and its number free.
  function lanes.write()
    local rows, records, gone, names, known = {}, {}, {}, {}, {}
    for i = 1, #lanes.changed do
      local l = lanes.changed[i]
      local record = pack_numbers(LANE, unpack(l, 1, RUNNING))
      records[i] = sub(record, 1, LANE_ROW)
      if l[LIVE] == 0 then
        gone[#gone + 1], names[#names + 1] = l.number, l.name
      else
        rows[#rows + 1], rows[#rows + 2] = l.number, record .. l.name
        if l.fresh then known[#known + 1], known[#known + 2] = l.name, l.number end
      end
    end
    if #gone > 0 then
      table.sort(gone)
      in_chunks('HDEL', lanes_key, gone)
      in_chunks('HDEL', lanenames_key, names)
      lanes.spare = (lanes.spare or redis.call('HGET', lanes_key, 'spare') or '') .. concat(gone, ' ') .. ' '
    end
    if lanes.spare and lanes.spare ~= '' then
      rows[#rows + 1], rows[#rows + 2] = 'spare', lanes.spare
    elseif lanes.spare then
      redis.call('HDEL', lanes_key, 'spare')
    end
    store(lanes_key, rows)
    store(lanenames_key, known)
    return concat(records)
  end
end
