"""Which hooks are in force."""
