-- A line of the log and a message for placements of a job.
said = (said and said .. '\n' or '') .. 'places ' .. id .. ' 0 ' .. need_text .. concat(values, ' ')
mailbox[#mailbox + 1] = lead .. hold .. concat(items)
