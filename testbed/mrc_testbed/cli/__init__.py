"""The mrc-testbed command: parse, call, print."""
