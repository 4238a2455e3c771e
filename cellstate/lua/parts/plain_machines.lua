-- Read the machines of the call. The plain form ends where one does not exist, or the mailbox of its executor was not given.
local rows = fetch(machines_key, keys)
do
  local texts, known, last, shape = fetch(runs_key, keys), {}, nil, nil
  for p = 1, #keys do
    local row, text = rows[p], texts[p] or ''
    if not row then
      plain = false
      break
    end
    local head, number, fixed, first, second = unpack_numbers(MACHINE, row)
    if fixed ~= last then
      last, shape = fixed, known[fixed]
      if not shape then
        shape = { unpack_numbers(FIXED, fixed) }
        local executor = shape[S_EXECUTOR]
        local mailbox = named[format('box:%d', executor)]
        if not mailbox then
          plain = false
          break
        end
        mailboxes[executor] = mailboxes[executor] or { key = mailbox }
        shape[S_FIXED], shape[S_MAILBOX], known[fixed] = fixed, mailboxes[executor], shape
        if R == 1 then shape[S_CAPACITY + 2] = 0 end
      end
    end
    if R == 1 then second = 0 end
    if R > 2 then others[p] = { unpack_numbers('<' .. string.rep('i8', R - 2), row, 8 * (6 + R) + 1) } end
    if text ~= '' and find(text, '!', 1, true) then
      holds = holds or {}
      holds[p] = true
    end
    heads[p], numbers[p], shapes[p], firsts[p], seconds[p], runs[p] = head, number, shape, first, second, text
  end
end
