"""Everything that is said to Redis."""
