-- Give a worker of a MapReduce job its next shard: the maps first and, when all are done, the reduces.
--
-- KEYS   meta runs placed jobs shards
-- ARGV   dims job machine placement task maps reduces at most near expire_ms
-- maps, reduces: number of shards of each phase, used in the call of the job's first worker. at: the time (ms) by the
-- store's clock; most: number of failed shards in a row after which a machine is excluded; near: disjoint ranges of maps that the
-- worker takes, best first, separated by blanks; "": all maps alike.
-- Reply  {"map", shard} or {"reduce", shard}; {"wait"} while other workers hold the remaining shards of the phase, or
--        the remaining ones failed here or just now; {"far"} when there are maps to take, but none of near; {"out"} on
--        an excluded machine; {"done"};
--        {"failed", shard, phase} when that shard has used up its attempts; {"fenced"} when the worker's placement is
--        no longer live
-- Types  runs, placed, jobs: hash; shards: hash of the job that expires (parts/shards.lua)
-- Rules  a shard belongs to a placement: the shard of an evicted, lost or ended worker is free again (semantics 1); a
--        repeated call returns the same shard (14); begins with HSET (13). Failed shards come after all others, after
--        their delay, and on a machine where they failed only if they failed on every machine of the job that is not
--        excluded. If all machines are excluded, none is.

--@include lists listing binary ranges rows records placements shards

local texts = {}
local function is_live(index, run, number)
  if texts[index] == nil then texts[index] = redis.call('HGET', runs_key, index) or '' end
  local _, _, id, _, tasks = find_run({ runs = texts[index] }, run, false)
  return id == job and (span_split(tasks, number)) ~= '-'
end

if not is_live(machine, placement, task) then return { 'fenced' } end
if failed then
  local phase, shard = match(failed, '^(%a+) (%d+)$')
  return { 'failed', shard, phase }
end
local whole = function(total) return total .. ' ' .. (total == '1' and '0' or '0-' .. (total - 1)) .. ' 0 0' end
local maps_of, reduces_of = read_phase(table_of[1] or whole(maps)), read_phase(table_of[2] or whole(reduces))
local what, p = 'map', maps_of
if p.done == p.total then what, p = 'reduce', reduces_of end
if p.done == p.total then return { 'done' } end
local _, _, mine = find_held(machine, placement, task)
if mine then return { what, mine } end

-- The machines of the job that are not excluded; all of them if all are excluded.
local function usable()
  load_jobs({ job })
  local all, good = {}, {}
  for i, g in ipairs(J[job] and J[job].groups or {}) do
    for _, run in ipairs(far.runs(J[job], i - 1, g, math.huge)) do
      all[run[2]] = true
      if failed_on(run[2]) < tonumber(most) then good[run[2]] = true end
    end
  end
  return next(good) and good or all
end

local good = failures == '' and {} or usable()
if failures ~= '' and not good[machine] then return { 'out' } end

-- The waiting shards of this phase that never failed, and those that failed.
local function sorted()
  local fresh, again, inside = p.waiting, {}, nil
  for phase, shard, count, not_before, where in gmatch(failures, FAILURE) do
    if phase == what then
      inside, fresh = span_split(fresh, shard)
      if inside ~= '-' then again[#again + 1] = { tonumber(count), tonumber(not_before), tonumber(shard), ',' .. where .. ',' } end
    end
  end
  return fresh, again
end

local function may_try(failure)
  if failure[2] > tonumber(at) then return false end
  if not find(failure[4], ',' .. machine .. ',', 1, true) then return true end
  for index in pairs(good) do
    if not find(failure[4], ',' .. index .. ',', 1, true) then return false end
  end
  return true
end

-- What of a list of spans is in the best set that has any of it; the whole list without sets.
local function nearest(list)
  if what == 'reduce' or near == '' then return list end
  for set in gmatch(near, '%S+') do
    local inside, at = {}, 1
    for _, cut in ipairs(spans(set)) do
      while list[at] and list[at][2] < cut[1] do at = at + 1 end
      local i = at
      while list[i] and list[i][1] <= cut[2] do
        inside[#inside + 1] = { math.max(list[i][1], cut[1]), math.min(list[i][2], cut[2]) }
        i = i + 1
      end
    end
    if inside[1] then return inside end
  end
  return {}
end

-- Ranges without one of their numbers: only the span that has it is written anew.
local function without(text, number)
  for at, a, b, after in gmatch(text, '()(%d+)%-?(%d*)()') do
    local first, last = tonumber(a), tonumber(b == '' and a or b)
    if number <= last then
      local parts = { at > 1 and sub(text, 1, at - 2) or nil }
      if first < number then parts[#parts + 1] = spell({ { first, number - 1 } }) end
      if number < last then parts[#parts + 1] = spell({ { number + 1, last } }) end
      if after <= #text then parts[#parts + 1] = sub(text, after + 1) end
      return parts[1] and concat(parts, ',') or '-'
    end
  end
end

-- Held shards are examined only when no others are left that this worker takes.
local fresh, again = sorted()
local own = nearest(spans(fresh))[1]
if not own then
  local known = p.waiting
  held = string.gsub(held, ' (%d+):(%d+):(%d+):(%d+)', function(index, run, number, shard)
    if is_live(index, run, number) then return nil end
    p.waiting = span_add(p.waiting, shard)
    return ''
  end)
  if p.waiting ~= known then
    fresh, again = sorted()
    own = nearest(spans(fresh))[1]
  end
end
local shard
if own then
  shard = format('%d', own[1])
else
  local failed_now, tries = {}, {}
  for _, failure in ipairs(again) do
    if may_try(failure) then
      tries[#tries + 1] = failure[3]
      failed_now[failure[3]] = failure[1]
    end
  end
  local best
  for _, s in ipairs(nearest(spans(span_add('-', concat(tries, ','))))) do
    for each = s[1], s[2] do
      if not best or failed_now[each] < failed_now[best] then best = each end
    end
  end
  if not best then return { (fresh ~= '-' or #tries > 0) and 'far' or 'wait' } end
  shard = format('%d', best)
end
p.waiting = without(p.waiting, tonumber(shard))
held = held .. ' ' .. machine .. ':' .. placement .. ':' .. task .. ':' .. shard
redis.call('HSET', shards_key, 'map', write_phase(maps_of), 'reduce', write_phase(reduces_of), 'held', held)
redis.call('PEXPIRE', shards_key, expire_ms)
return { what, shard }
