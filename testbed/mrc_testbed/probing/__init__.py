"""Link probes: what their outcomes say about the health of links, and how right that is."""
