"""The programs inside a node: the NIC agent, the switch data plane, and the BPF programs they share."""
