"""The live lab: nodes, links, switch and NIC data planes, agents, and what is recorded of them."""
