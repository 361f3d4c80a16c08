"""`fleethook stop`, `resume` and `say`: one stop for all agents, and messages into their sessions."""
