"""MCP: tools with which an agent or program looks at the fleet, over stdio and at a gateway's `/mcp` (G-18).

Only `server` imports the SDK, which is an extra of its own and takes a second to load.
"""
