"""How many workers a job gets: policies that see its profile and what is idle in total, never single machines."""
