-- Compare versions that a process saw with those of the cell, by their tags. Read only.
--
-- KEYS   meta changes cuts
-- ARGV   | positions
-- positions: version and tag in turn, the newest version first; what agrees with the cell agrees in all older versions.
-- Reply  {"ok", version, tag, number of the last cut, agreed, first lost}; agreed: the newest of the versions that the
--        cell has with the same tag; first lost: the oldest one that it has not, or has with another tag; "" for none.
--        Versions before the change list count as neither.
-- Types  meta, cuts: hash; changes: list
-- Rules  semantics 16

--@const MOST_POSITIONS 2048

local sub = string.sub
local meta = redis.call('HMGET', meta_key, 'version', 'floor')
local version, low = tonumber(meta[1] or 0), tonumber(meta[2] or 0)

-- Whether the cell has the version of a position: true, false, or nil for one before the change list.
local function stands(i)
  local seen = tonumber(ARGV[fixed_args + 2 * i - 1])
  if seen > version then return false end
  if seen <= low then return nil end
  return sub(redis.call('LINDEX', changes_key, seen - low - 1) or '', 1, 10) == ARGV[fixed_args + 2 * i]
end

local n = math.min(math.floor((#ARGV - fixed_args) / 2), MOST_POSITIONS)
local lost, other = 0, n + 1  -- the oldest position that is lost, and the next older one, by bisection
while other - lost > 1 do
  local middle = math.floor((lost + other) / 2)
  if stands(middle) == false then lost = middle else other = middle end
end
local agreed = other <= n and stands(other) and ARGV[fixed_args + 2 * other - 1] or ''
local latest = redis.call('LINDEX', changes_key, -1)
return { 'ok', string.format('%.0f', version), latest and sub(latest, 1, 10) or '', redis.call('HGET', cuts_key, 'last') or '0',
  agreed, lost > 0 and ARGV[fixed_args + 2 * lost - 1] or '' }
