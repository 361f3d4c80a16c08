"""What happened: events, traces, selections, export, replay, purge, status."""
