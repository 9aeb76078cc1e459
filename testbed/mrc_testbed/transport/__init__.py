"""Transports of QPs over a fabric: their kinds, congestion control and its parameters."""
