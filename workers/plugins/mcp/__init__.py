"""MCP servers of plugins: started when they are used, and asked as a client would ask them (I-10).

Everything that such a server says is untrusted: its lines, its tools and its results are bounded and cleaned here.
"""
