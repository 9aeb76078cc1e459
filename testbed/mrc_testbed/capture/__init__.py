"""Frames of a live lab as a pcapng file, and the Wireshark dissector that reads them."""
