-- The fast path of a call, in straight lines: jobs of one group of at most 255 tasks, none of them delayed, leaving or kept
-- apart, which nothing waits for, in kinds and pools without limits. Their records are read and patched in place: byte by
-- byte they are as the tables of cellstate/schema.py say. Every other call is left to the
-- general path of its script, before the first write: `fast` is false then (docs/fast-path.md).
-- The parts of this path are text that stands in its script, without functions: what a script makes, it makes anew for each
-- call, and a function with the variables that it shares costs as much as a command of the server.

-- A lane: its kind, number, name, whether it changed, its tallies by the need of a task; then the words of its record.
--@const L_KIND 1, L_NUMBER 2, L_NAME 3, L_CHANGED 4, L_TALLIES 5, L_ROW 5, L_PENDING 8, L_WANTED 9
-- What this call adds in a lane for jobs whose tasks need the same: placed tasks, pending jobs, jobs with placed tasks, jobs
-- that have not ended; the need; whether sums of it may exceed MOST_WANTED; the lane.
--@const T_TASKS 1, T_PENDING 2, T_JOBS 3, T_LIVE 4, T_NEED 5, T_LARGE 6, T_LANE 7
-- A kind: key of its queue, members of that to remove.
--@const K_QUEUE 1, K_GONE 2
-- Machines alike in a call: state, executor, capacity of each resource; then this text of these numbers, and the mailbox.
--@const S_STATE 1, S_EXECUTOR 2, S_CAPACITY 2

local R = dims + 0
--@layout
local S_FIXED, S_MAILBOX, L_HELD, L_LIVE = R + 4, R + 5, L_WANTED + R, L_WANTED + 2 * R + 1
-- A machine's record: its index as it is (pack takes its first bytes), its number, state and executor and capacity as they are, its amounts in use.
local MACHINE, WORDS, FIXED, VALUES, NEEDS, LANE
if R == 2 then
  MACHINE, WORDS, FIXED, VALUES = '<c8i8c32i8i8', '<i8c32i8i8', '<i8i8i8i8', ' %d %d,%d'
  NEEDS, LANE = '<I8I8', '<i8i8i8i8i8i8i8i8i8i8i8'
else
  local amounts, rep = string.rep('i8', R), string.rep
  WORDS, FIXED, VALUES = 'i8c' .. 16 + 8 * R .. amounts, '<i8i8' .. amounts, ' %d %d' .. rep(',%d', R - 1)
  MACHINE, WORDS = '<c8' .. WORDS, '<' .. WORDS
  NEEDS, LANE = '<' .. rep('I8', R), '<' .. rep('i8', 7 + 2 * R)
end
-- Machines by their places in the call: where the machine of a key is; keys, records, texts of the runs; amounts of the third and
-- further resources if there are any; those with leaving tasks. The numbers of the machine at place p end at MACHINE_WORDS * p.
--@const MACHINE_WORDS 5, M_NUMBER 4, M_SHAPE 3, M_FIRST 2, M_SECOND 1
-- So far before that end are its number, what is alike, amounts in use of the first and the second resource; at the end is under
-- which transaction it changed last, 0 at first.
local places, keys, machines, rows, runs, others, holds = {}, {}, {}, nil, nil, R > 2 and {}, nil
-- The places of machines that changed.
local touched = {}
--@const UNPLACED_FROM 16
local counts_at = HEAD_BYTES + UNPLACED_FROM + 1  -- where the counts of a job's tasks that wait and run begin
local lines, mailboxes, kinds, lanes_of, changed_lanes = {}, {}, {}, {}, {}
-- Of a cell in which some pools have limits: records of lanes whose jobs they do not bind, false for others. Of one in which
-- trees divide the machines: the trees of lanes.
local lane_rows, lane_trees, divided = {}, {}, false
-- Of the last job: lane, bytes of its need, its tally, the need of the first and the second resource.
local tally_lane, tally_bytes, tally, need, need1, need2
