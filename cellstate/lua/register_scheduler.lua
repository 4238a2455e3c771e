-- Register a scheduler under its name: a new incarnation, unless this nonce already has the name.
--
-- KEYS   meta machines runs jobs specs jobnames kinds lanes lanenames pools changes log done recent history results housekeeping schedulers lease
-- ARGV   dims tag at member nonce lease_ms settings
-- settings: for the log (cellstate/logged_settings.py).
-- Reply  {"ok", incarnation} or {"taken"} when a live scheduler has the name
-- Types  lease: string that expires; others as in commit.lua
-- Rules  counter + nonce, resending is idempotent (semantics 15)

--@include lists listing binary rows named counters
--@inner
--@include announce ranges records done pools lanes totals publish leases

local held, incarnation = holder(schedulers_key)
if held == 'taken' then return { 'taken' } end
if held == 'ok' then return { 'ok', incarnation } end
return take_name(schedulers_key, ' 0\n', 'settings', settings)
