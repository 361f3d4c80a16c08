"""`fleethook demo`: a scripted fleet of agents through the real processes, on a server and in a folder of its own."""
