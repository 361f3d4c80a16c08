"""Gobby's scripts, for tests."""
