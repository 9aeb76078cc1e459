"""The NIC agent: a process per host that posts work, requests transmissions, probes EVs, follows carriers.

The data path is mrc_agents/nic/bpf; no data packet ever passes through this process.
"""
