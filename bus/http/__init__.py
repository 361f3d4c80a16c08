"""Outgoing HTTP: the address policy, the client, and signatures."""
