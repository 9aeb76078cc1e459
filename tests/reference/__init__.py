"""The reference of the BPF programs, in pure Python: the wire format, both ends of a QP, switch ports.

    layout                   bit fields declared once, read both ways
    opcode, ..._header       the twelve opcodes; the headers
    packet                   BTH to pad, one class per group of opcodes
    frame                    whole frames, trimming
    icrc                     the invariant CRC
    psn sack                 PSN arithmetic; building and reading the SACK bitmap
    traffic_class            DSCP classes, ECN
    received_bytes           the byte count that SACKs carry
    nscc dcqcn               arithmetic of congestion control
    requester responder      both ends of a QP; ev_partition: the states of its EVs
    port lossless            a shaped port; a network of them under PFC or credits
    fault_rules              what link faults do to frames

No I/O. docs/reference/protocol.md and docs/explanation/queue-engine.md say what all of it means.
"""
