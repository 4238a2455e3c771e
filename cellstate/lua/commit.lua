-- Validate the transactions of one scheduler in order, apply the accepted claims, and reply with the changes that its
-- snapshot lacks and with its next jobs. This script is the specification of a conflict.
--
-- KEYS   meta machines runs jobs specs lanes changes log schedulers lease pools trees | box:* pending:* wake:* asleep owners, and what only the general
--        form needs: placed jobnames kinds lanenames done recent history results housekeeping waiters
-- ARGV   dims tag at member incarnation number since since_tag request basis body
-- request: "most owned kind lanes" of the intake (parts/intake.lua), empty for none.
-- basis: for the log, what the client knows of the call (`Basis` in cellstate/transaction.py).
-- body: the transactions, bytes without gaps (parts/binary.lua): the job's id, a text of at most 255 bytes; mode (0
-- incremental, 1 gang) and detection (0 fine, 1 coarse), a byte each; the number of claims, and of every claim the machine, the
-- group, the count of identical tasks and the machine's number at the sync; and a text, empty in most: the victims that claims may
-- evict, "claim:placement*count…" in order, and "|" with what the transaction asserts of pools (parts/shares.lua).
-- Reply  {"ok", version, tag, outcomes, mode, text, arrivals, counts, (id, arrival, record, spec)…}, or, when the tag is this call's,
--        the mode "delta" and no jobs are requested, the text "version outcomes" and, after a line feed, that of the delta; or
--        {"fenced"} / {"stale"} / {"keys", name…} with nothing done.
--        outcomes: per transaction "+" when all claims are placed, else "placed verdict,…" per claim; joined by ";".
-- Types  meta, machines, runs, trees, placed, jobs, specs, jobnames, kinds, schedulers: hash; changes, done, box: list;
--        log: stream; lease: string; pending: sorted set
-- Rules  Omega §3.4, docs/semantics.md; validation: semantics 7, 8, 9, 11; loss: 14, 15, 16.
--        Verdicts, the first that applies: unknown, down, duplicate, incomplete, limit, tree, share, precedence, moved, full,
--        placed; in a gang that fails the placed ones become aborted.

--@const PLACED_OK 0, UNKNOWN 1, IS_DOWN 2, DUPLICATE 3, INCOMPLETE 4, LIMIT 5, PRECEDENCE 6, MOVED 7, FULL 8, ABORTED 9, SHARE 10, TREE 11
--@include lists binary named fence
local kinds_key = named.kinds
if last ~= number then
  --@include fast_path/place
end
if not named.placed then return { 'keys', 'done', 'history', 'housekeeping', 'jobnames', 'kinds', 'lanenames', 'placed', 'recent', 'results', 'waiters' } end
--@inner
local placed_key, jobnames_key, lanenames_key, done_key, housekeeping_key =
  named.placed, named.jobnames, named.lanenames, named.done, named.housekeeping
--@include rows delta answer listing counters announce ranges records done pools lanes totals publish links placements losses copies tasks shares

local NONE = {}
local read_transactions
do
  -- The victims of claims, by the claim's place: "claim:placement*count…", in the order they may be taken.
  local function read_victims(text)
    local evict = {}
    for i, placement, n in gmatch(text, '(%d+):(%d+)%*(%d+)') do
      i = tonumber(i)
      evict[i] = evict[i] or {}
      table.insert(evict[i], { placement = placement, count = tonumber(n) })
    end
    return evict
  end

  -- Of a claim four numbers stand in one list: its machine, group, count and the machine's number at the sync; its machine as
  -- text in another. Nil for a body that is none.
--@const MOST_CLAIMS 5000, MOST_VICTIMS 1048576
  function read_transactions()
    local list, machines, ids, evicting, at = {}, {}, {}, {}, 1
    while at <= #body do
      local id, gang, coarse, n, numbers, said
      id, gang, coarse, n, at = unpack_numbers('<I1c0I1I1I4', body, at)
      if n > MOST_CLAIMS or at + CLAIM_BYTES * n > #body then return end
      numbers, at = unpack_claims(body, at, n)
      said, at = unpack_numbers('<I4c0', body, at)
      if #said > MOST_VICTIMS then return end
      local t = {
        id = id, gang = gang == 1, coarse = coarse == 1, n = n, numbers = numbers, keys = {},
        share = false, job = false, kind = false, claimed = n > 1 and {} or NONE, placed = {}, placing = false,
      }
      for i = 1, n do
        local key = format('%d', numbers[4 * i - 3])
        t.keys[i], machines[#machines + 1] = key, key
      end
      if said ~= '' then
        shares.use()
        t.evict, t.share = read_victims(said), shares.read(said)
        t.taken, t.units, t.evicted, t.gone, t.vacated = {}, {}, {}, {}, {}
        for k in pairs(t.evict) do evicting[#evicting + 1] = t.keys[k] end
      end
      ids[#ids + 1], list[#list + 1] = id, t
    end
    return list, machines, ids, evicting
  end
end

local function load(transactions, machines, ids, evicting)
  load_machines(machines)
  load_jobs(ids)
  if #evicting > 0 then
    load_jobs_on(evicting)
    load_strict_gangs()
  end
  load_kinds_of_jobs()
  if shares.used then shares.load(transactions) end
  if pools.limited then
    local numbers = {}
    for _, j in pairs(J) do
      if j then numbers[#numbers + 1] = j.lane end
    end
    lanes.load(numbers)
    pools.load(L, numbers)
    if pools.divided then
      local trees = fetch(trees_key, machines)
      for i = 1, #machines do
        local m = M[machines[i]]
        if m then m.tree = trees[i] end
      end
    end
  end
end

-- Single tasks that may be evicted for a claim, in the given order; tasks that have ended are ignored.
-- Nil, and the verdict, when one of them is not of strictly lower precedence, and no assertion covers its pool or job:
-- SHARE if pools refuse any of them, whatever their order. Optional tasks count as of precedence 0, unless a strict gang
-- goes with them.
local function victims_of(t, i, m)
  if not t.evict[i] then return NONE end
  if t.job.groups[t.numbers[4 * i - 2] + 1][OPTIONAL] == COPIES then return nil, PRECEDENCE end  -- copies evict nothing
  local units, listed, refused = {}, {}, false
  for _, v in ipairs(t.evict[i]) do
    local from, _, id, group, tasks = find_run(m, v.placement, false)
    if from then
      local victim = J[id]
      local lowly = victim.gang ~= STRICT and optional(victim.groups[group + 1])
      local rank = lowly and 0 or victim.precedence
      refused = refused ~= SHARE and shares.refusal(t, victim, rank) or refused
      local left = span_count(tasks) - (t.evicted[v.placement] or 0) - (listed[v.placement] or 0)
      local n = math.min(v.count, left)
      listed[v.placement] = (listed[v.placement] or 0) + n
      for _ = 1, n do
        units[#units + 1] =
          { placement = v.placement, job = victim, kind = K[victim.kind], group = victim.groups[group + 1],
            chain = pools.limited and pools.chain(L[victim.lane]) }
      end
    end
  end
  if refused then return nil, refused end
  return units
end

-- How many tasks of a group the limits of the job's kind and of its pools still admit, after what evictions gave back:
-- amounts, and the place of a job all of whose tasks go (semantics 9).
local function admitted(t, g)
  local j, k, most = t.job, t.kind, math.huge
  if t.chain then most = pools.admits(t.chain, g, j.placed == 0 and not t.placing, t.vacated) end
  if not k.limited then return most end
  if k.lowest and (j.precedence < k.lowest or j.precedence > k.highest) then return 0 end
  if k.max_jobs and j.placed == 0 and not t.placing then
    local vacated = t.vacated and t.vacated[k] or 0
    if k.jobs - vacated >= k.max_jobs then return 0 end
  end
  for d = 1, R do
    local limit, need = k.limit[d], g[NEED + d]
    if limit and need > 0 then most = math.min(most, math.max(0, floor((limit - k.used[d]) / need))) end
  end
  return most
end

local function evict(t, m, units, from, to, sign)
  for i = from, to do
    local u = units[i]
    occupy(m, u.group, -sign)
    book(u.kind, u.group, -sign)
    if u.chain then pools.hold(u.chain, u.group, -sign) end
    t.evicted[u.placement] = (t.evicted[u.placement] or 0) + sign
    local before = t.gone[u.job] or 0
    t.gone[u.job] = before + sign
    if math.max(before, before + sign) == u.job.placed then
      t.vacated[u.kind] = (t.vacated[u.kind] or 0) + sign
      for _, b in ipairs(u.chain or NONE) do t.vacated[b] = (t.vacated[b] or 0) + sign end
    end
  end
end

-- Place as many of `want` tasks as fit, evicting one task after another only while needed: a task that does not fit in
-- the end evicts nothing (semantics 7). Returns the number of placed tasks and the verdict of the others.
local function fit(t, i, m, g, want, units)
  local n, taken, tried = 0, 0, 0
  local verdict = PLACED_OK
  while true do
    local fits, limit = room(m, g, want), admitted(t, g)
    local possible = math.min(fits, limit)
    if possible > n then n, taken = possible, tried end
    if n >= want then break end
    verdict = limit <= n and LIMIT or FULL
    if tried == #units or (limit <= n and fits > n) then break end
    tried = tried + 1
    evict(t, m, units, tried, tried, 1)
  end
  evict(t, m, units, taken + 1, tried, -1)
  if taken > 0 then t.taken[i], t.units[i] = taken, units end
  return n, n >= want and PLACED_OK or verdict
end

-- As fit, task by task: each with the victims that it needs, while that is legal between pools (semantics 33). The claims of
-- a gang are one set, which is validated when all of them stand.
function shares.fit(t, i, m, g, want, units)
  local s, n, taken, verdict = t.share, 0, 0, PLACED_OK
  while n < want and verdict == PLACED_OK do
    local tried = taken
    while true do
      local fits, limit = room(m, g, n + 1), admitted(t, g)
      if limit > n and not shares.below(s, g) then verdict = SHARE end
      if fits > n and limit > n or verdict == SHARE then break end
      if tried == #units or (limit <= n and fits > n) then
        verdict = limit <= n and LIMIT or FULL
        break
      end
      tried = tried + 1
      evict(t, m, units, tried, tried, 1)
    end
    if verdict == PLACED_OK then
      shares.count(s, g, units, taken + 1, tried, 1)
      if not t.gang and not shares.legal(s) then
        shares.count(s, g, units, taken + 1, tried, -1)
        verdict = SHARE
      end
    end
    if verdict ~= PLACED_OK then
      evict(t, m, units, taken + 1, tried, -1)
    else
      n, taken = n + 1, tried
      if not t.gang then shares.close(s) end
    end
  end
  if taken > 0 then t.taken[i], t.units[i] = taken, units end
  return n, verdict
end

-- Validate one claim against the working copy. Returns the number of placed tasks and the verdict of the rest:
-- identical tasks share the verdict of the first that failed.
local function validate(t, i)
  local j, m, numbers = t.job, M[t.keys[i]], t.numbers
  local group, count, seen = numbers[4 * i - 2], numbers[4 * i - 1], numbers[4 * i]
  local g = j and j.groups[group + 1]
  if not g or count < 0 or j.state ~= ACTIVE or not m or m[STATE] == GONE then return 0, UNKNOWN end
  local takes = m[STATE] == UP and not (j.commands and m[EXECUTOR] % 2 == 1)  -- odd: it only simulates
  local fits = takes and room(m, g, count) or -1
  if fits < 0 then return 0, IS_DOWN end
  local claimed = t.claimed[group] or 0
  local left = g[UNPLACED] - claimed
  if left <= 0 then return 0, DUPLICATE end
  if t.incomplete then return 0, INCOMPLETE end
  if t.tree and m.tree ~= t.tree then return 0, admitted(t, g) <= 0 and LIMIT or TREE end
  local units, refusal = NONE, false
  if t.evict then units, refusal = victims_of(t, i, m) end
  if t.share and not shares.below(t.share, g) then units, refusal = nil, SHARE end
  if not units then return 0, admitted(t, g) <= 0 and LIMIT or refusal end
  -- Earlier transactions of this call do not count: only a change by another client is `moved`.
  if t.coarse and (has_diverged() or seen + m.own ~= m[NUMBER]) then return 0, admitted(t, g) <= 0 and LIMIT or MOVED end
  local want = count < left and count or left
  local rest = DUPLICATE
  if g[OPTIONAL] == COPIES then
    local apart = far.copies.apart(g, m, claimed, want)
    if apart < want then
      if apart == 0 then return 0, FULL end
      want, rest = apart, FULL
    end
  end
  local n, verdict = want, PLACED_OK
  if t.share then
    n, verdict = shares.fit(t, i, m, g, want, units)
  elseif fits < want or (t.limited and admitted(t, g) < want) then
    n, verdict = fit(t, i, m, g, want, units)
  end
  if n > 0 then
    local used = t.kind.used
    for d = 1, R do
      local amount = g[NEED + d] * n
      m[USED + d], used[d] = m[USED + d] + amount, used[d] + amount
    end
    t.kind.changed, t.placing = true, true
    if t.chain then pools.hold(t.chain, g, n) end
    if t.n > 1 then t.claimed[group] = claimed + n end
  end
  if verdict == PLACED_OK and count > want then verdict = rest end
  return n, verdict
end

local apply
do
  -- Evict the victims of a claim: the last tasks of each victim's run.
  local function apply_evictions(taken, units, m, reason)
    local counts, order = {}, {}
    for i = 1, taken do
      local placement = units[i].placement
      if not counts[placement] then order[#order + 1] = placement end
      counts[placement] = (counts[placement] or 0) + 1
    end
    for _, placement in ipairs(order) do
      local from, to, id, group, tasks = find_run(m, placement, false)
      local part = span_tail(tasks, counts[placement])
      take_off(m, placement, part, 'evicted', reason, from, to, id, group, tasks)
    end
  end

  function apply(t, stamp)
    local j, placed, numbers = t.job, t.placed, t.numbers
    local before, reason = j.placed, false
    far.copies.transaction = stamp
    if t.taken then
      reason = (t.share and 'fair-share:' or 'precedence:') .. t.id
      if t.share and next(t.taken) then fact(shares.fact(t)) end
    end
    for i = 1, t.n do
      local count = placed[i]
      if count > 0 then
        local m = M[t.keys[i]]
        touch(m, stamp)
        if t.taken and t.taken[i] then
          apply_evictions(t.taken[i], t.units[i], m, reason)
          before = math.min(before, j.placed)  -- its own optional tasks may have been the last that ran
        end
        place(j, numbers[4 * i - 2], m, count)
      end
    end
    count_admitted(j, before)
    touch_job(j)
    gained[#gained + 1] = j
    if t.taken then evict_gangs(reason, stamp) end
  end
end

-- Undo a failed gang: its placed claims become aborted, and the working copy is restored.
local function abort(t, changed)
  for i = 1, t.n do
    local n = t.placed[i]
    if n > 0 then
      local m, g = M[t.keys[i]], t.job.groups[t.numbers[4 * i - 2] + 1]
      occupy(m, g, -n)
      book(t.kind, g, -n)
      if t.chain then pools.hold(t.chain, g, -n) end
      if t.taken and t.taken[i] then evict(t, m, t.units[i], 1, t.taken[i], -1) end
    end
    t.placed[i], t.verdicts[i] = 0, t.verdicts[i] or ABORTED
  end
  if t.kind then t.kind.changed = changed end
end

local decide
do
  -- A transaction of a gang must cover its unplaced required tasks, in gang mode, or what its minimum lacks (semantics 8).
  local function covers(t, j)
    local sums, all = {}, 0
    for i = 1, t.n do
      local group, count = t.numbers[4 * i - 2], t.numbers[4 * i - 1]
      sums[group], all = (sums[group] or 0) + count, all + count
    end
    if j.gang_min > 0 then
      return j.placed >= j.gang_min or t.gang and all >= math.min(j.gang_min - j.placed, j.unplaced + j.delayed)
    end
    if j.delayed > 0 then return false end
    for i, g in ipairs(j.groups) do
      if (sums[i - 1] or 0) < g[UNPLACED] and not optional(g) then return false end
    end
    return t.gang
  end

  --@include failures

  function decide(t, stamp)
    local j, placed = J[t.id], t.placed
    t.job, t.kind, t.chain = j, j and K[j.kind], pools.limited and j and pools.chain(L[j.lane])
    t.limited = t.chain or (t.kind and t.kind.limited)
    t.tree = pools.divided and j and pools.tree(L[j.lane])
    t.incomplete = j and j.gang > 0 and not covers(t, j)
    if t.share and j then shares.begin(t) end
    local changed = t.kind and t.kind.changed
    local failed, any = false, false
    for i = 1, t.n do
      local n, verdict = validate(t, i)
      placed[i] = n
      if verdict ~= PLACED_OK then
        failed = true
        t.verdicts = t.verdicts or {}
        t.verdicts[i] = verdict
      end
      if n > 0 then any = true end
    end
    if t.share and t.gang and not failed and not shares.legal(t.share) then
      failed, t.verdicts = true, {}
      for i = 1, t.n do t.verdicts[i] = SHARE end
    end
    if failed and t.gang then
      abort(t, changed)
      any = false
    end
    -- "+" stands for a transaction that placed something: claims of no tasks do not.
    local words = failed and announce_failure(t) or (any or t.n == 0) and '+' or '0 0' .. string.rep(',0 0', t.n - 1)
    if any then
      meta.transactions = meta.transactions + 1
      if gained[#gained] == j then fact('again ' .. t.id) end  -- parts two transactions of a job, for the audit
      apply(t, stamp)
    end
    return words
  end
end

local transactions, machines, ids, evicting = read_transactions()
if not transactions then return redis.error_reply('LARGE transaction') end
load(transactions, machines, ids, evicting)
local lack, answers = lacking(), {}
if lack then return lack end
for i = 1, #transactions do answers[i] = decide(transactions[i], i) end
lack = end_waits()
if lack then return lack end
publish(at, member, false, '', 'basis', basis)
return answer(concat(answers, ';'), meta.version, meta.floor, meta.arrivals)
