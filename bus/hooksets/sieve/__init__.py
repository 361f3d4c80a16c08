"""Selects the rules that may fit a command line, so that only few have to be judged."""
