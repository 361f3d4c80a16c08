"""Lists, and the operations on what they show: events, deliveries, dead letters, hosts, sessions and workers."""
