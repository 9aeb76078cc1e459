"""What is measured and exported; import from the modules."""
