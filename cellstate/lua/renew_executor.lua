-- Renew the lease of an agent and return the runs of its machine.
--
-- KEYS   meta machines runs changes agents unsettled lease
-- ARGV   member incarnation lease_ms index
-- index is that of its machine, "-" before it joined.
-- Reply  {"ok", agents in the cell, machine record, runs, version, its tag, 1 when it is to confirm what it runs else 0
--        (confirm_runs.lua)}, or {"fenced"} when the lease lapsed or another incarnation has the name; record and runs are
--        empty when there are none
-- Types  machines, runs, agents, unsettled: hash; changes: list; lease: string that expires
-- Rules  leases expire on the server's clock, an expired lease is not revived (semantics 15, 17); the runs come with the
--        heartbeat's reply (19); begins with PEXPIRE, which a full server accepts (13)

local record = redis.call('HGET', agents_key, member)
if not record or string.match(record, '^%d+') ~= incarnation then return { 'fenced' } end
if redis.call('GET', lease_key) ~= incarnation then return { 'fenced' } end
redis.call('PEXPIRE', lease_key, lease_ms)
local machine, runs = redis.call('HGET', machines_key, index), redis.call('HGET', runs_key, index)
local latest = redis.call('LINDEX', changes_key, -1)
return { 'ok', redis.call('HLEN', agents_key), machine or '', runs or '', redis.call('HGET', meta_key, 'version') or '0',
  latest and string.sub(latest, 1, 10) or '', redis.call('HEXISTS', unsettled_key, member) }
