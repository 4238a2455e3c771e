-- What may change of a job after its submission: its modify index, its dependencies, the totals of its groups.
-- links is "<*" (a user holds it), "<!REASON" (the gate of its scheduler holds it), ">!" (a user released it from that),
-- "<ID" (waits until that job finished), "<ID+" (until it ended in any state), ">ID" (that job waits for this one), in any
-- order.

-- A change by a user: the modify index becomes the version of this call.
local function modify(j)
  j.modified = meta.version + 1
  touch_job(j)
end

-- Whether the caller read another modify index ("-": any).
local function overtaken(j, check) return check ~= '-' and j.modified ~= tonumber(check) end

local function has_link(j, link)
  for each in gmatch(j.links, '[<>][^<>]+') do
    if each == link then return true end
  end
  return false
end

local function drop_link(j, link)
  local kept = {}
  for each in gmatch(j.links, '[<>][^<>]+') do
    if each ~= link then kept[#kept + 1] = each end
  end
  j.links = concat(kept)
  touch_job(j)
end

local function waits(j) return find(j.links, '<', 1, true) ~= nil end

-- Release a job that nothing holds any more: it arrives at its schedulers as a new one.
local function set_free(j)
  j.state, j.returned = ACTIVE, true
  touch_job(j)
end

local function optional(g) return g[OPTIONAL] == 1 end

-- Read the jobs that wait for those read so far, transitively: a call that may end jobs releases or stops them.
local function load_awaiting()
  local ids
  repeat
    ids = {}
    for _, j in pairs(J) do
      if j and find(j.links, '>', 1, true) then
        for id in gmatch(j.links, '>(%w[^<>]*)') do
          if J[id] == nil then ids[#ids + 1] = id end
        end
      end
    end
    load_jobs(ids)
  until #ids == 0
end

-- Whether a job without remaining tasks finished: no task failed, and it was not stopped.
local function finished(j)
  if j.state == JOB_STOPPED or j.state == ABANDONED then return false end
  for _, g in ipairs(j.groups) do
    if g[FINISHED] ~= g[TOTAL] then return false end
  end
  return true
end

-- Stop the unplaced tasks of a job, delayed ones too. Returns their number.
local function stop_unplaced(j)
  local count = j.unplaced + j.delayed
  for _, g in ipairs(j.groups) do
    g[STOPPED] = g[STOPPED] + g[UNPLACED] + g[DELAYED]
    waiting_of(g)  -- merges the collected changes into the text
    g[UNPLACED], g[WAITING], g.losses, g.loss_list, g[DELAYED] = 0, '-', false, false, 0
  end
  j.unplaced, j.delayed = 0, 0
  return count
end

-- Stop a job with a dependency that can no longer be met; its record keeps the dependency.
local function give_up(j, awaited)
  local count = stop_unplaced(j)
  j.state = JOB_STOPPED
  touch_job(j)
  fact(format('stop %s %d after:%s', j.id, count, awaited))
end

-- Release or stop the jobs that wait for jobs that ended in this call, transitively. Called after all other changes of the
-- call.
local function end_waits()
  local todo = {}
  for i, j in ipairs(changed_jobs) do todo[i] = j end
  for _, j in ipairs(todo) do
    if j.unplaced == 0 and j.placed == 0 and j.delayed == 0 and not j.was_complete and find(j.links, '>', 1, true) then
      local well = finished(j)
      for id in gmatch(j.links, '>(%w[^<>]*)') do
        local other = J[id]
        if other and other.state == HELD and (has_link(other, '<' .. j.id) or has_link(other, '<' .. j.id .. '+')) then
          drop_link(other, '<' .. j.id .. '+')
          if well then drop_link(other, '<' .. j.id) end
          if has_link(other, '<' .. j.id) then
            give_up(other, j.id)
            todo[#todo + 1] = other
          elseif not waits(other) then
            set_free(other)
            fact('release ' .. id .. ' ' .. j.id)
          else
            fact('met ' .. id .. ' ' .. j.id)
          end
        end
      end
      j.links = string.gsub(j.links, '>%w[^<>]*', '')
    end
  end
end
