"""`make train`: a PyTorch job trained through faults, and a page that shows what became of it."""
