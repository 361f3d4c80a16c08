"""Python plugins in processes of their own: started, called, reloaded, restarted, and shown (G-11 to G-15)."""
