-- Renew the lease of an agent and return the runs of its machine.
--
-- KEYS   meta machines runs agents lease
-- ARGV   member incarnation lease_ms index
-- index is that of its machine, "-" before it joined.
-- Reply  {"ok", agents in the cell, machine record, runs}, or {"fenced"} when the lease lapsed or another
--        incarnation has the name; record and runs are empty when there are none
-- Types  machines, runs, agents: hash; lease: string that expires
-- Rules  leases expire on the server's clock, an expired lease is not revived (semantics 15, 17); the runs come with the
--        heartbeat's reply (19); begins with PEXPIRE, which a full server accepts (13)

local record = redis.call('HGET', agents_key, member)
if not record or string.match(record, '^%d+') ~= incarnation then return { 'fenced' } end
if redis.call('GET', lease_key) ~= incarnation then return { 'fenced' } end
redis.call('PEXPIRE', lease_key, lease_ms)
local machine, runs = redis.call('HGET', machines_key, index), redis.call('HGET', runs_key, index)
return { 'ok', redis.call('HLEN', agents_key), machine or '', runs or '' }
