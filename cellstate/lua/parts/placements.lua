-- The runs of a group, listed by its job. A run whose last task has an index below 256 stands in the job's record; the others
-- stand in the hash "placed", in chunks by that index, so that the end of a task costs the same whether its job has 10
-- or 145,000 running:
--   "job group chunk"   runs with a last index from 256 * chunk on, "placement@machine," each; "@machine," of the next id
--   "job group !chunk"  the same of leaving tasks, "!placement@machine," each
-- The job's record lists the chunks that there are: g.live, g.going, as ranges.

--@const CHUNK 256
-- A dropped run is replaced by an empty text.
local function drop_run(list, item)
  list.dropped = list.dropped or {}
  list.dropped[item .. ','] = ''
  list.leaves = nil
end

local function add_run(list, item)
  if list.dropped and list.dropped[item .. ','] then runs_of(list) end
  if list.added then
    list.added[#list.added + 1] = item
  else
    list.added = { item }
  end
end

-- The chunk of a run of these tasks; 0: it stands in the record.
local function chunk_of(tasks) return find(tasks, '%d%d%d$') and floor(match(tasks, '%d+$') / CHUNK) or 0 end

-- Change the tasks of a run of a group: its first tasks, other tasks, or none ("-").
local function move_run(j, group, g, item, leaving, before, after)
  local from, to = before ~= '-' and chunk_of(before), after ~= '-' and chunk_of(after)
  if from == to then return end
  if from then drop_run(from == 0 and g or far.list_of(j, group, g, from, leaving), item) end
  if to then
    add_run(to == 0 and g or far.list_of(j, group, g, to, leaving), item)
    if leaving then g.leaves = true end
  end
end

--@lazy far
-- The chunks of a group's live or leaving runs. New ones are collected until the text is needed: with a chunk for each of
-- a call's tasks it would be written anew for each.
local function chunks_of(g, which)
  local more = g.new_chunks and g.new_chunks[which]
  if more then
    g[which], g.new_chunks[which] = span_add(g[which], concat(more, ',')), nil
  end
  return g[which]
end

local function add_chunk(g, which, chunk)
  g.new_chunks = g.new_chunks or {}
  local more = g.new_chunks[which] or {}
  more[#more + 1], g.new_chunks[which] = format('%d', chunk), more
end

-- The list of runs of a chunk, read on first use: a table like that of a group.
function far.list_of(j, group, g, chunk, leaving)
  if chunk == 0 then return g end
  local name = format(leaving and '%s %s !%d' or '%s %s %d', j.id, group, chunk)
  local list = far.lists[name]
  if not list then
    local text = redis.call('HGET', placed_key, name)
    list = { name = name, chunk = chunk, group = g, which = leaving and 'going' or 'live', was = text, added = false,
      dropped = false, runs = text or '' }
    if not text then add_chunk(g, list.which, chunk) end
    far.lists[name] = list
    far.touched[#far.touched + 1] = list
  end
  return list
end

-- Numbers of the chunks of live runs, ascending; that of the record is 0.
function far.chunks(g)
  local numbers = { 0 }
  for _, s in ipairs(spans(chunks_of(g, 'live'))) do
    for chunk = s[1], s[2] do numbers[#numbers + 1] = chunk end
  end
  return numbers
end

-- The live runs of a chunk by placement id, {id, machine} each.
function far.runs_in(j, group, g, chunk)
  local list = {}
  local id = 0
  for leaving, first, index in gmatch(runs_of(far.list_of(j, group, g, chunk, false)), '(!?)(%d*)@(%d+)') do
    id = first == '' and id + 1 or tonumber(first)
    if leaving == '' then list[#list + 1] = { id, index } end
  end
  table.sort(list, function(x, y) return x[1] < y[1] end)
  for _, run in ipairs(list) do run[1] = format('%d', run[1]) end
  return list
end

-- The live runs of a group by chunk and id, {id, machine} each; chunks are read until the requested number is reached.
function far.runs(j, group, g, most)
  local list = {}
  for _, chunk in ipairs(far.chunks(g)) do
    if #list >= most then break end
    answering(list, far.runs_in(j, group, g, chunk))
  end
  return list
end

-- The leaving runs of a group, {id, machine} each.
function far.leaving(j, group, g)
  local list = {}
  local function take(text)
    for placement, index in gmatch(text, '!(%d+)@(%d+)') do list[#list + 1] = { placement, index } end
  end
  take(runs_of(g))
  for _, s in ipairs(spans(chunks_of(g, 'going'))) do
    for chunk = s[1], s[2] do take(runs_of(far.list_of(j, group, g, chunk, true))) end
  end
  return list
end

-- Write the chunks that this call changed; before the records of their jobs, which list them.
function far.write()
  local rows, gone, emptied = {}, {}, { live = {}, going = {} }
  for _, list in ipairs(far.touched) do
    local text, g, which = runs_of(list), list.group, list.which
    chunks_of(g, which)
    if text == '' then
      emptied[which][g] = emptied[which][g] or {}
      table.insert(emptied[which][g], list.chunk)
      if list.was then gone[#gone + 1] = list.name end
    elseif text ~= list.was then
      rows[#rows + 1] = list.name
      rows[#rows + 1] = text
    end
  end
  for which, groups in pairs(emptied) do
    for g, chunks in pairs(groups) do
      table.sort(chunks)
      g[which] = select(2, span_split(g[which], concat(chunks, ',')))
    end
  end
  in_chunks('HDEL', placed_key, gone)
  store(placed_key, rows)
  far.lists, far.touched = {}, {}
end
