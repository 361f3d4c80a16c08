"""Webhook deliveries: attempt, outcome, retry, dead letter."""
