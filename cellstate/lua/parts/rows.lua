-- Machines as the cell stores them, and the states of machines and jobs.
--   machine  index number state executor capacity*R allocated*R, eight bytes each (binary.lua); number: its
--            sequence number; state: OFFLINE is a machine that would be up, and whose executor does not live;
--            UNFIT one whose executor lives and cannot start tasks;
--            executor: its number, odd when it simulates, even when it runs commands (parts/serving.lua)

local R = tonumber(dims)
-- Where a machine's words are in its table; capacity and use are those plus the dimension.
--@const NUMBER 2, STATE 3, EXECUTOR 4, CAPACITY 4
local USED = CAPACITY + R
local MACHINE = '<' .. string.rep('i8', 4 + 2 * R)
local AMOUNTS = string.rep(' %d', R)
--@const UP 0, DRAINED 1, DOWN 2, GONE 3, OFFLINE 4, UNFIT 5
--@const STRICT 2
--@const ACTIVE 0, HELD 1, JOB_STOPPED 2, ABANDONED 3, DONE 4
local STATES = { [0] = '0', '1', '2', '3', '4', '5' }
-- Lanes: their words, and the scores of their jobs (parts/lanes.lua).
--@const LANE_BASE 1099511627776, LANE_SPAN 274877906944, BUCKET_SPAN 8589934592, MOST_WANTED 8589934592
--@const SERIAL 2, PENDING 3, ARRIVAL 4, WANTED 4, MOST_LANES 32000
