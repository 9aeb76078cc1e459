"""Prometheus and Grafana beside the labs: started, fed with rules and dashboards, taken away again.

One stack per state folder, whatever labs come and go in it: one exporter shows them all, so that Prometheus
has one target that never changes. A run does not depend on the stack; it may die or go at any time.
"""
