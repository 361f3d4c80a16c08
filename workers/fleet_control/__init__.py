"""One stop for all agents, and messages into their sessions (X-12)."""
