"""The captured ports of a lab."""

from mrc_testbed.fabric.live import Lab


def captured_ports(attached: Lab) -> list[str]:
    """Names of the ports whose frames are being copied."""
    return [
        attached.clos.port(port_id).name
        for port_id, port in enumerate(attached.port_table)
        if port.capture_bytes
    ]
