"""What rules remember: the calls that count for limits, and the facts of a session."""
