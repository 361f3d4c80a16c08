"""Python plugins of hook files: their sources, found and read without running them, and the hooks of their handlers."""
