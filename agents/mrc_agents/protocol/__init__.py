"""The agreement between both ends of a QP: parameters of congestion control, byte counts."""
