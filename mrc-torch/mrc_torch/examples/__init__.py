"""Training scripts that know nothing of mrc-torch."""
