"""The W3C trace context of events, and spans of OpenTelemetry."""
