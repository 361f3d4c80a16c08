"""The live feed: one reader sends every event with its verdict, and every delivery's outcome, to many clients."""
