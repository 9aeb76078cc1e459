"""Traces of jobs, as files of other projects have them: their graphs, formats and checks."""
