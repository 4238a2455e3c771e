"""MapReduce jobs: their input in shards, what is kept between the phases, and where it stands."""
