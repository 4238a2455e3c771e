-- A job of the fast path whose runs end.
if not record then break end
local resources, _, _, _, _, of_groups, more = byte(record, 1, SIZE_AT + 1)
if resources ~= R or of_groups ~= 1 or more ~= 0 then break end
--@simple
if times[list[t]] and submitted ~= times[list[t]] then break end
local e, f, g = byte(record, at_runs, at_runs + 2)
local at_rest = at_runs + 4 + e + 256 * f
if state + leaving + delayed + optional + g ~= 0 or links ~= '' or indices > 255 or at_rest + 3 ~= #record then break end
--@include fast_path/tally
if not tally then break end
jobs[list[t]] = { record, 0, at_runs, at_rest, tally, unplaced, placed, finished, failed, begun, placed, false }
