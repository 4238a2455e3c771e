"""Which job next: policies that see jobs and never machines."""
