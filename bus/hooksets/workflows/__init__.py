"""Reads workflows into hooks: those of fleethook.yaml, and Gobby's files."""
