-- Submit jobs. The same job again under its id changes nothing.
--
-- KEYS   meta machines runs jobs specs jobnames kinds changes log done | pending:* wake:*
-- ARGV   dims tag at by | pairs
-- A pair is "id name kind precedence gang bucket links group;group…" and the job's opaque spec; links:
-- what holds it back (parts/links.lua), or "-"; a group is "need*R duration count[?]", "?": optional.
-- Reply  {"ok", version, answer…}: "new", "same INDEX" (its modify index), "id" (the id belongs to another
--        job) or "name ID" (a live job has that name); or {"keys", name…} with nothing done.
-- Types  as in commit.lua
-- Rules  pending tasks are ranges, not records (semantics 21); begins with HSET (13).

--@include lists binary words ranges publish

local asked, ids, jobnames = {}, {}, {}
for i = fixed_args + 1, #ARGV, 2 do
  local id, name, kind, precedence, gang, bucket, links, groups =
    match(ARGV[i], '^(%S+) (%S+) (%S+) (%d+) (%d) (%x%x) (%S+) (.*)$')
  asked[#asked + 1] = {
    id = id, name = name, kind = kind, precedence = precedence, gang = gang, bucket = bucket,
    links = links == '-' and '' or links, groups = groups, spec = ARGV[i + 1] }
  ids[#ids + 1], jobnames[#jobnames + 1] = id, name
end
local function want_keys()
  local names = {}
  for _, a in ipairs(asked) do
    if not named['pending:' .. a.kind] then names[#names + 1] = 'pending:' .. a.kind end
  end
  return names
end
local names = want_keys()
if #names > 0 then return answering({ 'keys' }, names) end

local records, specs, holders = fetch(jobs_key, ids), fetch(specs_key, ids), fetch(jobnames_key, jobnames)

-- What stays the same of a record: everything but state, links, counts and ranges.
local function essence(record)
  local j = read_job('', record)
  local parts = { name_of(j), j.kind, format('%d', precedence_of(j)), j.gang }
  for _, g in ipairs(j.groups) do parts[#parts + 1] = g[LEAD] end
  return concat(parts, ';')
end

local function modified_of(record) return (match(record, '^%S+ %S+ %d+ %d+ %d %d %d+ %x%x (%d+)')) end

local version = format('%d', meta.version + 1)
local answers, rows, opaque, named_rows, fresh = {}, {}, {}, {}, {}
local seen_ids, seen_names = {}, {}
for i, a in ipairs(asked) do
  local known = seen_ids[a.id] or (records[i] and { essence(records[i]), specs[i] or '', modified_of(records[i]) })
  local mine = concat({ a.name, a.kind, a.precedence, a.gang }, ';') .. ';' .. a.groups
  if known then
    answers[i] = (known[1] == mine and known[2] == a.spec) and ('same ' .. known[3]) or 'id'
  elseif seen_names[a.name] or holders[i] then
    answers[i] = 'name ' .. (seen_names[a.name] or holders[i])
  else
    answers[i] = 'new'
    seen_ids[a.id], seen_names[a.name] = { mine, a.spec, version }, a.id
    meta.jobs = meta.jobs + 1
    local parts, total = {}, 0
    for part in gmatch(a.groups, '[^;]+') do
      local lead, count, may_drop = match(part, '^(.*) (%d+)(%??)$')
      total = total + count
      local waiting = count == '0' and '-' or count == '1' and '0' or format('0-%d', count - 1)
      parts[#parts + 1] = lead .. ' ' .. count .. may_drop .. ' ' .. count .. ' 0 0 0 0 ' .. waiting .. ' -'
    end
    rows[#rows + 1] = a.id
    local state = a.links == '' and ACTIVE or HELD
    local lead = { a.name, a.kind, a.precedence, meta.jobs, state, a.gang, at, a.bucket, version .. a.links }
    rows[#rows + 1] = concat(lead, ' ') .. ';' .. concat(parts, ';')
    if a.spec ~= '' then
      opaque[#opaque + 1] = a.id
      opaque[#opaque + 1] = a.spec
    end
    named_rows[#named_rows + 1] = a.name
    named_rows[#named_rows + 1] = a.id
    fresh[#fresh + 1] = { kind = a.kind, id = a.id, bucket = a.bucket }
    fact(format('submit %s %s %s %s %d', a.id, a.name, a.kind, a.precedence, total))
  end
end
if #fresh > 0 then
  store(jobs_key, rows)
  store(specs_key, opaque)
  store(jobnames_key, named_rows)
  for _, j in ipairs(fresh) do pend[#pend + 1] = j end
  write_pending()
  announce('', at, by)
end
return answering({ 'ok', format('%d', meta.version) }, answers)
