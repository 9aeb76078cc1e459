"""Ports that packets of a QP go to."""

from typing import Final

MRC_UDP_PORT: Final = 4791
"""The RoCEv2 port. The published text prints 4971, most likely by a slip; receivers take a list."""
