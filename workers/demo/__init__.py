"""`fleethook demo`: a scripted fleet of agents with real processes, a separate server and a temporary folder."""
