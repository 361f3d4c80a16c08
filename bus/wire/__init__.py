"""Everything that is sent to and read from Redis."""
