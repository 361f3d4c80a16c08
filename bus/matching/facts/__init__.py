"""Facts about what a call names or contains: branches, hosts, packages and secrets."""
