"""Faults of a lab: their specifications (pure) and the shell that applies and reverts them."""
