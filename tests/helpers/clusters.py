"""Clusters for tests: a real one of processes on this machine, and dask's own loop in this one."""

from __future__ import annotations

import functools
from contextlib import contextmanager

import dask
from distributed import Client, LocalCluster


@contextmanager
def real_cluster(n_workers: int = 2):
    """Workers that are processes, reached by 127.0.0.1 only."""
    with (
        LocalCluster(
            n_workers=n_workers,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            silence_logs=50,
        ) as cluster,
        Client(cluster, timeout=120, set_as_default=False) as client,
    ):
        yield client


class Here:
    """What a ``Cluster`` does, by dask's synchronous scheduler."""

    def __init__(self) -> None:
        self.round_trips = 0

    def start(self, tasks):
        return list(dask.compute(*tasks, scheduler="synchronous"))

    def merge_tasks(self, tasks, merge):
        self.round_trips += 1
        return self._merge(self.start(tasks), merge)

    def merge(self, function, parts, merge, *shared):
        self.round_trips += 1
        return self._merge([function(part, *shared) for part in parts], merge)

    def _merge(self, found, merge):
        """Two at a time, as answers may come."""
        return functools.reduce(lambda one, two: merge([one, two]), found[1:], merge([found[0]]))
