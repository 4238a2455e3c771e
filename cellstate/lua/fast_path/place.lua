-- Transactions of the fast path (state.lua), validated and applied as in commit.lua, whose general path is the specification.
-- No claim may evict, and no job may have two transactions.
--@include fast_path/state

local jobs, names, layouts = nil, named.asleep and {}, nil
-- Of a call with several transactions: the outcomes; with one: its outcome.
local outcomes, alone
local placed_jobs, placements, version, low = 0, (counters[4] or 0) + 0, counters[1] + 1, (counters[2] or 0) + 0
local last_duration, duration_text, need_bytes, need_text, diverged
local fast, limits, pools_limited = true, counters[7] and counters[7] ~= '0', counters[6] == "POOLS_LIMITED"
if pools_limited then
  -- When pools bind the first job, others are likely alike, and reading the call is in vain.
  local record = body ~= '' and redis.call('HGET', jobs_key, (unpack_numbers('<I1c0', body)))
  fast = record and true
  if fast then
    --@include fast_path/pools
  end
end
repeat -- the fast path
  if not fast then break end
  local n, count, cursor, ids, met, begins, numbers_of_claims = 0, 0, 1, {}, {}, {}, {}
  while cursor <= #body do
    fast = false
    local id, _, _, claims, from = unpack_numbers('<I1c0I1I1I4', body, cursor)
    cursor = from + CLAIM_BYTES * claims
    -- Its job has more tasks than the fast path takes, or another transaction, or it may evict.
    if claims < 1 or claims > 255 or cursor > #body or met[id] or unpack_numbers('<I4', body, cursor) > 0 then break end
    n = n + 1
    ids[n], met[id], begins[n], numbers_of_claims[n] = id, true, from, claims
    for k = from, cursor - 1, CLAIM_BYTES do
      local machine = unpack_numbers('<i4', body, k)
      if not places[machine] then
        count = count + 1
        keys[count], places[machine] = format('%d', machine), count
      end
    end
    cursor, fast = cursor + 4, true
  end
  if not fast then break end
  local job_records = fetch(jobs_key, ids)
  if n > 1 then outcomes = {} end
  for t = 1, n do
    local record = job_records[t]
    if not record then
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
