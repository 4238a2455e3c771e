-- Change the attributes of a machine if it still has those that the caller read.
--
-- KEYS   meta machines runs jobs specs jobnames kinds lanes lanenames pools changes log done recent history results housekeeping static trees operator | wake:* asleep owners
-- ARGV   dims tag at by index before after count set_before set_after settings
-- before, after: name and opaque attributes, as stored; count: number of attributes after the change. set_before,
-- set_after: attributes that an operator set, as `operator` has them: join.lua keeps them. settings: for the log
-- (cellstate/logged_settings.py).
-- Reply  {"ok", version}, {"unknown"}, or {"moved"} when they were modified concurrently
-- Types  static, operator: hash; others as in commit.lua
-- Rules  equal attributes change nothing (14); begins with HSET (13). The change list names the machine twice, first as
--        drained: a snapshot that reads the entry fetches the attributes again, whatever else changed. The machine is in
--        no tree until it was assigned anew (assign_trees.lua).

--@include lists listing binary rows named counters
--@inner
--@include announce ranges records done pools lanes totals publish operator

load_machines({ index })
local m = M[index]
if not m or m[STATE] == GONE then return { 'unknown' } end
local now = redis.call('HGET', static_key, index)
local amounts, set = set_by_operator(index)
if now == after and set == set_after then return { 'ok', format('%d', meta.version) } end
if now ~= before or set ~= set_before then return { 'moved' } end
keep_for_operator(index, amounts, set_after)
if now == after then return { 'ok', format('%d', meta.version) } end
redis.call('HSET', static_key, index, after)
redis.call('HDEL', trees_key, index)
touch(m, 1)
meta.transactions, freed = meta.transactions + 1, true
fact(with_values('machine ' .. index .. ' attributes ' .. count, m))
publish(at, by, false, restated(m), 'settings', settings)
return { 'ok', format('%d', meta.version) }
