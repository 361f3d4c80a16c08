"""What workers do for rules with memory: count calls for limits, note the facts of sessions, and look them up."""
