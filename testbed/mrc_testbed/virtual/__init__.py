"""Labs in virtual time: the same programs and agents over a queue of events;
docs/explanation/virtual-time.md.
"""
