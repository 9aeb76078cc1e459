"""Explanations of runs in virtual time: each is repeated, and looked at while it goes on.

rerun     repeats a plan up to a moment     trace     records what the library does meanwhile
"""
