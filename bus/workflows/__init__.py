"""Workflows: their values, and the languages of their conditions and texts."""
