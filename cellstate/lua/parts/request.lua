-- The jobs that a scheduler requests with its commit: "most owned kind lanes" of intake, empty for none.
local most, owned, kind, asked = match(request, '^(%d+) (%S+) (%S+) (%S+)$')
