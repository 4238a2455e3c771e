"""A replay of a trace and what it gives: records of jobs and tasks, standard metrics, files for other programs."""
