"""The calls that send events and wait for verdicts: agents, programs and hook commands."""
