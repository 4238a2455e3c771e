-- A job of the fast path whose runs end.
if not record then break end
local form, state, begun, _, leaving, size, more = byte(record, 1, 7)
local a, b, c, d = byte(record, LINKS_AT, LINKS_AT + 3)
if form + state + leaving + more + a + b + c + d ~= 0 or size ~= 1 then break end
local time = times[list[t]]
if time and unpack_numbers('<I8', record, SUBMITTED_AT) ~= tonumber(time) then break end
--@texts
local unplaced, placed, finished, failed, _, delayed, _, _, optional, wide, more_wide =
  byte(record, group + COUNTS_AT + 2, group + COUNTS_AT + 12)
local at_runs = group + WAITING_AT + 4 + wide
local e, f, g = byte(record, at_runs, at_runs + 2)
local at_rest = at_runs + 4 + e + 256 * f
if more_wide + g + delayed + optional ~= 0 or at_rest + 3 + 4 * R ~= #record then break end
local bytes = sub(record, at_rest + 4)
--@include fast_path/tally
if not tally then break end
jobs[list[t]] = { record, group, at_runs, at_rest, tally, unplaced, placed, finished, failed, begun, placed, false }
