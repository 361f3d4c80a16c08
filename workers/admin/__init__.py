"""The work of commands on this machine: installs, edits of files, checks, services."""
