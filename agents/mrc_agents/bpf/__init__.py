"""BPF from Python: objects, pins, XDP attachment and typed maps, over libbpf by ctypes."""
