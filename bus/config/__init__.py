"""Everything that people write for Fleethook: hook files, settings, trust, and what is said when they are wrong."""
