"""Two QPs connected by their verbs alone, for tests of the verbs."""

from mrc_agents.nic.connection import Connection


def connect_pair(near: Connection, qpn: int, far: Connection, peer_qpn: int) -> None:
    """Brings two QPs in INIT to RTS towards one another: each gets the other's number and first PSN."""
    far.connect_qp(peer_qpn, qpn, near.query_qp(qpn)["first_psn"])
    near.connect_qp(qpn, peer_qpn, far.query_qp(peer_qpn)["first_psn"])
