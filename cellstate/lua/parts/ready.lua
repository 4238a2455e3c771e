-- The last reads of a call that may end jobs; without a key that it needs it changes nothing.
load_kinds_of_jobs()
local lack = lacking()
if lack then return lack end
