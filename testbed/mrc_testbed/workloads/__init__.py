"""The traffic of a lab: workload specifications (pure) and the shell that runs them on NIC agents."""
