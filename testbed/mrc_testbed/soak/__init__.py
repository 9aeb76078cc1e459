"""Random universes in virtual time: drawn from a number, judged by invariants, shrunk when one does not hold;
docs/explanation/simulation-testing.md.
"""
