"""Which agents report from which hosts, and which tool calls ran without their pre-hook event (X-15)."""
