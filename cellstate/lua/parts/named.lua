--@const CHANGES_LEAST 32, ROWS_LEAST 1000, CHANGES_MOST 8192, TRIM_EVERY 32, TRIM_SAMPLE 15, LOG_KEPT 50000, MAILBOX_MOST 20000, POOLS_LIMITED 2

-- Keys beyond the fixed ones, by what follows the cell's tag: pending:KIND, box:EXECUTOR, wake:MEMBER, asleep, owners.
local named = {}
do
  local after = #meta_key - 3  -- they begin alike; meta ends the first
  for i = fixed_keys + 1, #KEYS do named[sub(KEYS[i], after)] = KEYS[i] end
end
