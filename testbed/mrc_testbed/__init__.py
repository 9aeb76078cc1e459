"""mrc-testbed: Multipath Reliable Connection on a software multi-plane Clos."""
