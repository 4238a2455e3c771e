"""Live processes: schedulers, simulated machines, agents, and a complete cell on one computer."""
