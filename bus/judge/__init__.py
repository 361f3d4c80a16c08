"""Prompt and agent hooks: a model at an OpenAI-compatible endpoint judges an event (I-12, docs/prompt-hooks.md)."""
