"""What a supervisor and its workers tell each other."""
