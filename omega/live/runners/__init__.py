"""Task runners: how an agent starts the command of a task, in a container, a sandbox or a virtual environment."""
