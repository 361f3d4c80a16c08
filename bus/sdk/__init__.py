"""Scopes for agents that are written in Python."""
