"""Live assembly: schedulers as processes, machines that are played, a whole cell on one computer."""
