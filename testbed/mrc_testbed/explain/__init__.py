"""Explanations of runs in virtual time: each is repeated, and looked at while it goes on.

moment    shows the lab at a moment           until     finds the first at which a condition holds
rerun     repeats a plan up to a moment     trace     records what the library does meanwhile
"""
