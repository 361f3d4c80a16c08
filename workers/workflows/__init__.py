"""Workflows at work: their state in Redis, and what they do outside."""
