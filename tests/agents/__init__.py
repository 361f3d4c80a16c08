"""Real agent programs against a scripted model, on loopback only: `make test-agents`."""
