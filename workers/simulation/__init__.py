"""What hooks would say: to one event, and to recorded events in place of the hooks that answered them (X-04)."""
