"""HTTP out: where it may go, how it goes, and how it is signed."""
