"""Grafana dashboards of mrc-testbed, built from typed parts; `python -m dashboards` writes them as JSON.

Run time needs only the JSON and the rules beside it: the SDK is a package for development.
"""
