"""Secrets: references to them, sealed values, and redaction of what is shown."""
