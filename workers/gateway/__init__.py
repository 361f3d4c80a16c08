"""HTTP in front of the bus: hooks of agents, events of programs, health and metrics."""
