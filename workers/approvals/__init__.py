"""Held calls: questions that wait for a person, who answers them and how, and tickets for later calls (X-03)."""
