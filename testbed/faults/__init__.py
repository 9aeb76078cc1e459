"""What can be broken in a lab: fault specifications (pure) and the shell that applies and reverts them."""
