"""Held calls through real processes."""
