"""Results in one file that anybody can open: written, read, and run again."""
