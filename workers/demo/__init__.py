"""`fleethook demo`: a scripted fleet of agents on real processes, with a server and a folder of its own."""
