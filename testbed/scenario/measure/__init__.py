"""What is recorded in a run, and what it amounts to: quantities, recovery, trust, verdict."""
