"""First floor: what decides. The attempt loop, the policies, and the process that runs them live."""
