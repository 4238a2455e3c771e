-- Read the machines of the call. The fast path ends where one does not exist, or the mailbox of its executor was not given.
rows, runs = fetch(machines_key, keys), fetch(runs_key, keys)
do
  local known, last, shape = #keys > 1 and {}, nil, nil
  for p = 1, #keys do
    local row, text = rows[p], runs[p]
    if not row then
      fast = false
      break
    end
    local number, fixed, first, second = unpack_numbers(WORDS, row, 9)
    if fixed ~= last then
      last, shape = fixed, known and known[fixed]
      if not shape then
        shape = { unpack_numbers(FIXED, fixed) }
        local executor = shape[S_EXECUTOR]
        local mailbox = named[format('box:%d', executor)]
        if not mailbox then
          fast = false
          break
        end
        mailboxes[executor] = mailboxes[executor] or { key = mailbox }
        shape[S_FIXED], shape[S_MAILBOX] = fixed, mailboxes[executor]
        if known then known[fixed] = shape end
        if R == 1 then shape[S_CAPACITY + 2] = 0 end
      end
    end
    if R == 1 then second = 0 end
    if R > 2 then others[p] = { unpack_numbers('<' .. string.rep('i8', R - 2), row, 8 * (6 + R) + 1) } end
    if not text then
      runs[p] = ''
    elseif find(text, '!', 1, true) then
      holds = holds or {}
      holds[p] = true
    end
    if p == 1 then
      machines = { number, shape, first, second, 0 }
    else
      local q = MACHINE_WORDS * p
      machines[q - M_NUMBER], machines[q - M_SHAPE], machines[q - M_FIRST], machines[q - M_SECOND], machines[q] =
        number, shape, first, second, 0
    end
  end
end
