-- What may change of a job after its submission: its modify index, what it waits for, its groups' totals.
-- links is "modified" and then "<*" (a person holds it), "<ID" (waits until that job finished), "<ID+"
-- (until it ended in whatever way), ">ID" (that job waits for this one), in any order.

-- A change by a person: the modify index is the version that this call will leave.
local function modify(j)
  j.links = string.gsub(j.links, '^%d+', format('%d', meta.version + 1))
  touch_job(j)
end

-- Whether somebody who read another modify index asks ("-": whoever asks does not care).
local function overtaken(j, check) return check ~= '-' and match(j.links, '^%d+') ~= check end

local function has_link(j, link)
  for found in gmatch(j.links, '[<>][^<>]+') do
    if found == link then return true end
  end
  return false
end

local function drop_link(j, link)
  local kept = {}
  for found in gmatch(j.links, '[<>][^<>]+') do
    if found ~= link then kept[#kept + 1] = found end
  end
  j.links = match(j.links, '^%d+') .. concat(kept)
  touch_job(j)
end

local function waits(j) return find(j.links, '<', 1, true) ~= nil end

-- Nothing holds it back any more: it arrives anew at its schedulers.
local function set_free(j)
  j.state, j.returned = ACTIVE, true
  touch_job(j)
end

-- A group's total, and how many indices were given out: none is given out twice.
local function total_of(g)
  local total, indices = match(g[LEAD], '(%d+)/?(%d*)%??$')
  return tonumber(total), tonumber(indices) or tonumber(total)
end

local function optional(g) return find(g[LEAD], '?', 1, true) ~= nil end

local function set_total(g, total, indices)
  local text = total == indices and format('%d', total) or format('%d/%d', total, indices)
  g[LEAD] = string.gsub(g[LEAD], '%S+$', text .. (optional(g) and '?' or ''))
end
