-- A line of the log and a message for placements of a job.
local text = concat(items)
said = (said and said .. '\n' or '') .. 'places ' .. id .. ' 0 ' .. need_text .. text
mailbox[#mailbox + 1] = lead .. hold .. text
