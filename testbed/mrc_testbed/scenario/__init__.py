"""Scenarios: what a file may say, the plan it resolves to, the run, the verdict and its results.

spec        models of a Scenario file, the language of expectations, the plan
measure     what is recorded in a run, and what it amounts to
run         the runner and the lab behind it
report      results as files
execution   one run from plan to result folder
"""
