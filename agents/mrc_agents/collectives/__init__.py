"""Collective operations of ranks: the C library, and what drives it in virtual time."""
