-- A line of the log and a message for placements of a job.
said = (said and said .. '\n' or '') .. 'places ' .. id .. ' 0' .. concat(values)
mailbox[#mailbox + 1] = lead .. hold .. concat(items)
