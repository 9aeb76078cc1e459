"""The backend `mrc` of torch.distributed: collectives over the NICs of an mrc-testbed lab."""
