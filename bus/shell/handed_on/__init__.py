"""Texts that a line hands on: typed into a terminal, printed by a shell's builtin, written into a file by code."""
