"""Many runs as one: scenarios times a matrix times seeds, in sequence, with a journal and one summary."""
