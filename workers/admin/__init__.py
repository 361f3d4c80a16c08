"""What commands do to this machine."""
