"""Commands that a line runs indirectly: typed into a terminal, printed by a builtin, written into a file by code."""
