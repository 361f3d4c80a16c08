"""The operating system: processes above this one, folders, locks, and child processes."""
