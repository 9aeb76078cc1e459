"""Settings of the unit tier: no root, no network, under 20 s as a whole."""

from hypothesis import settings

# No deadline per example: the machine is shared, and speed is measured in benchmarks/, not here.
settings.register_profile("unit", deadline=None, max_examples=40)
settings.load_profile("unit")
