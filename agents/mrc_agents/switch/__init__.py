"""The switch data plane: the forwarding program, and the queue engine of shaped labs with its drainer."""
