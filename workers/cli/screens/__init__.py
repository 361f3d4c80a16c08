"""How lists, traces and the full-screen view are laid out on a terminal."""
