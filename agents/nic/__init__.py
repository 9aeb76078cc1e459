"""The NIC agent: one process per host that posts work, lends frames, probes EVs and follows carriers.

The data path is agents/nic/bpf; no data packet ever passes through this process.
"""
