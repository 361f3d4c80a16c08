"""What a workflow does at an event: a pure step from its state and the event to a new state and actions."""
