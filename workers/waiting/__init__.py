"""How processes wait while nothing happens: one long read, and one look a second at what may have changed."""
