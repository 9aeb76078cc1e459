"""Health check of a lab: slow and dead hosts, paths and links, by measuring all of it for a few seconds."""
