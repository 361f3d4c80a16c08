"""The machine underneath: which processes run above us, and what else only the operating system knows."""
