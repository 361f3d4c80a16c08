"""The live feed: every event with its verdict and every delivery's outcome, to many clients, from one reader."""
