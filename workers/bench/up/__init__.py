"""What `fleethook up` costs a machine: its start, and what it takes while nothing happens."""
