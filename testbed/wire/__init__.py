"""The MRC wire format in pure Python: the reference that the BPF programs are tested against.

    layout                   bit fields declared once, read both ways
    opcode                   the twelve opcodes
    transport_header         BTH METH TSETH RETH ImmDt AETH
    reliability_header       SETH CC_STATE NETH PETH
    endpoint_header          ERTH EETH
    network_header           Ethernet IPv6 UDP
    packet                   BTH to pad, one class per group of opcodes
    frame                    whole frames, trimming
    icrc                     the invariant CRC
    psn sack                 PSN arithmetic; building and reading the SACK bitmap
    entropy_value carrier    EV in a packet; uSID carriers in 64-bit words
    traffic_class            DSCP classes, ECN, tunnel rules
    timestamp received_bytes the clock and the byte count that SACKs reflect and carry
    cc_profile nscc          parameters of congestion control, and its arithmetic

No I/O; the only state is that of a congestion window. docs/protocol.md says what all of it means.
"""
