-- Records and arguments as bytes, little-endian. Formats are those of the server's packer (struct): "I4" an unsigned number of so
-- many bytes, "i8" a number from -2^53 to 2^53, "c2" a text of two bytes, "I4c0" a text behind its length (both are given to
-- pack, unpack returns the text alone). Unpack returns where it ended as well.

local pack_numbers, unpack_numbers = struct.pack, struct.unpack
-- A claim of a transaction: machine, group, count, number of the machine at the sync.
--@const CLAIM_BYTES 24, CLAIMS_AT_ONCE 500
-- The numbers of n claims that begin at `at`, as a list, and where they end: a C function returns some thousands of values at most.
local function unpack_claims(text, at, n)
  local list = n <= CLAIMS_AT_ONCE and { unpack_numbers('<' .. string.rep('i4i4i8i8', n), text, at) } or {}
  for from = 0, n > CLAIMS_AT_ONCE and n - 1 or -1, CLAIMS_AT_ONCE do
    local count = math.min(CLAIMS_AT_ONCE, n - from)
    local part = { unpack_numbers('<' .. string.rep('i4i4i8i8', count), text, at + CLAIM_BYTES * from) }
    for i = 1, 4 * count do list[4 * from + i] = part[i] end
  end
  list[4 * n + 1] = nil
  return list, at + CLAIM_BYTES * n
end
--@fields
