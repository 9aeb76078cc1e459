"""Campaigns on several machines, by dask.distributed: Dask's own scheduler and workers with this preload.

    dask scheduler --dashboard-address 127.0.0.1:8787 --preload mrc_testbed.cluster
    dask worker tcp://head:8786 --nworkers 1 --dashboard-address 127.0.0.1:0 --preload mrc_testbed.cluster
    mrc-testbed campaign run FILE --cluster tcp://head:8786

docs/guide/cluster.md shows the rest. The scheduler says which version it is of, workers of others end, the
head refuses to begin. A run goes to a worker as its plan, and comes back as a bundle.
"""

from mrc_testbed.cluster.preload import dask_setup

__all__ = ["dask_setup"]
