"""What the tests share: a real server, a real receiver, real worker processes, and waiting for events."""
