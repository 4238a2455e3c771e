-- Publish the fair shares of an epoch; only the first publication of a number has an effect.
--
-- KEYS   meta machines runs jobs specs jobnames kinds lanes lanenames pools changes log done recent history results housekeeping epoch
-- ARGV   dims tag at by number version pools_version now period digest totals shares leaves
-- version: of the cell when it was read; now: the server's time in ms; period: minimum length of an epoch in ms;
-- totals: "tN words;…", what each tree has some of whose pools lend in part only (parts/pools.lua).
-- Reply  {"ok", version}, {"late", number} (it is published already), {"early", its time} or {"pools", version}: the
--        pools were changed since it was computed
-- Types  epoch: hash; others as in commit.lua
-- Rules  semantics 34; a record that is no epoch, of another type too, is replaced by an epoch of any number (37)

--@include lists listing binary rows named counters
--@inner
--@include announce ranges records done pools lanes totals publish

local function digits(text) -- nil for what is no number, or none that resources.py counts exactly
  local found = text and match(text, '^%d+$') and tonumber(text)
  return found and found < 1e14 and found
end
local kind = redis.call('TYPE', epoch_key).ok
local known = kind == 'hash' and redis.call('HMGET', epoch_key, 'number', 'at') or {}
local pools_now = redis.call('HGET', pools_key, 'version') or '0'
local last, at_ms = digits(known[1]), digits(known[2])
if last and last ~= tonumber(number) - 1 then return { 'late', known[1] or '0' } end
local age = last and at_ms and tonumber(now) - at_ms
if age and age >= 0 and age < tonumber(period) then return { 'early', known[2] } end -- below 0: the clock was put back
if pools_now ~= pools_version then return { 'pools', pools_now } end

if kind ~= 'hash' then redis.call('DEL', epoch_key) end
redis.call('HSET', epoch_key, 'number', number, 'version', version, 'pools', pools_version, 'at', now, 'by', by,
  'digest', digest, 'shares', shares, 'leaves', leaves, 'published', format('%d', meta.version + 1))
local rows = {}
for field, words in gmatch(totals, '(t%d+) ([^;]+)') do
  local row = redis.call('HGET', pools_key, field)
  if row then
    rows[#rows + 1] = field
    rows[#rows + 1] = pools.record(pools.read_book(field, words).bound, pools.read_book(field, row).used)
  end
end
store(pools_key, rows)
fact('epoch ' .. number .. ' ' .. version .. ' ' .. digest)
announce('', at, by)
return { 'ok', format('%d', meta.version) }
