"""Trying out workflows in this process."""
