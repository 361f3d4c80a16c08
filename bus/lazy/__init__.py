"""What is made at its first use, so that a process starts without it."""
