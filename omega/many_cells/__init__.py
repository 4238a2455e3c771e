"""Several cells of one store: a new one like another, jobs for the best of them, lists over all."""
