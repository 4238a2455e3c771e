"""What jobs demand of machines beside room: constraints, failure domains, other jobs near or apart."""
