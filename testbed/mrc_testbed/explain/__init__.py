"""Explanations of runs in virtual time: each is repeated (rerun), and looked at while it goes on (trace).

why and answer explain an operation; moment shows the lab at a moment, until finds one.
"""
