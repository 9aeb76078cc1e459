"""What both ends of a QP agree on: parameters of congestion control, byte counts."""
