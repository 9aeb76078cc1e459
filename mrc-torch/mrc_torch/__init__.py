"""The backend `mrc` of torch.distributed: collectives over the NICs of an mrc-testbed lab."""


def autoload() -> None:
    """Register the backend; `import torch` calls this, by an entry point of the group `torch.backends`."""
    from mrc_torch.backend import register  # noqa: PLC0415 - torch is being imported, and may be missing

    register()
