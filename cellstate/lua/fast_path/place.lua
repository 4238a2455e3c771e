-- Transactions of the fast path (state.lua), validated and applied as in commit.lua, whose general path is the specification.
-- No claim may evict, and no job may have two transactions.
--@include fast_path/state

local jobs, names, layouts = nil, named.asleep and {}, nil
-- Of a call with several transactions: where the one of a job begins, and the outcomes; with one: its outcome.
local starts, outcomes, alone
local placed_jobs, placements, version, low = 0, (counters[4] or 0) + 0, counters[1] + 1, (counters[2] or 0) + 0
local duration, duration_text, need_bytes, need_text, diverged
local fast, limits, pools_limited = true, counters[7] and counters[7] ~= '0', counters[6] == "POOLS_LIMITED"
if pools_limited then
  -- When pools bind the first job, others are likely alike, and reading the call is in vain.
  local record = redis.call('HGET', jobs_key, ARGV[fixed_args + 1] or '')
  fast = record and byte(record) == 0
  if fast then
    --@include fast_path/pools
  end
end
repeat -- the fast path
  if not fast then break end
  local n, count, i, ids = 0, 0, fixed_args + 1, nil
  local id = ARGV[i]
  while id do
    fast = false
    local last_at = i + 2 + (#ARGV[i + 1] - 16) / 24
    if ARGV[i + 2] ~= '' or n > 0 and (id == ids[1] or starts and starts[id]) or last_at > i + 257 then break end  -- its job has more tasks than the fast path takes
    n = n + 1
    if n == 1 then
      ids = { id }
    else
      starts = starts or { [ids[1]] = fixed_args + 1 }
      starts[id], ids[n] = i, id
    end
    for k = i + 3, last_at do
      local key = ARGV[k]
      if not places[key] then
        count = count + 1
        keys[count], places[key] = key, count
      end
    end
    i, fast = last_at + 1, true
    id = ARGV[i]
  end
  if not fast then break end
  local job_records = ids and fetch(jobs_key, ids)
  if n > 1 then outcomes = {} end
  for t = 1, n do
    local record = job_records[t]
    if not record or byte(record) ~= 0 then
      fast = false
    elseif fast and pools_limited then
      --@include fast_path/pools
    end
  end
  if not fast then break end
  --@include fast_path/machines
  local trees = divided and fetch(trees_key, keys)
  for t = 1, fast and n or 0 do
    fast = false
    local id, record = ids[t], job_records[t]
    local at = starts and starts[id] or fixed_args + 1
    --@include fast_path/job
  end
  if not fast then break end
  local by, placing, count_text, placements_text, sums = member, true, nil, nil, nil
  if placed_jobs > 0 then
    count_text, placements_text = format('%d', (counters[5] or 0) + placed_jobs), format('%d', placements)
  end
  --@include fast_path/count fast_path/write fast_path/notify fast_path/answer
  return words
until true -- the general path carries out every other call
