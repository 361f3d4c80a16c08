"""Gobby's daemon as its hook scripts and WebSocket clients know it, on ports of its own (docs/gobby.md)."""
