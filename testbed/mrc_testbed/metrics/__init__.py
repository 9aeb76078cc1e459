"""Measurements and their export; import from the modules."""
