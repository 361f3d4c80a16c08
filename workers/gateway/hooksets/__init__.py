"""The fleet's hook set over HTTP: publish, roll back, and try what it does."""
