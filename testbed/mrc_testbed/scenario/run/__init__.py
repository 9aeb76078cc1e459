"""Carrying a plan out on a lab: clock, faults, workloads, readings."""
