"""MapReduce jobs: input shards, intermediate files, and the plan."""
