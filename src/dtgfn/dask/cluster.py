"""A cluster: the same question to all partitions, the answers merged on the workers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from distributed import Client, Future, KilledWorker, default_client, wait
from distributed.comm.core import CommClosedError

from dtgfn._support import clock

PULSE = 5.0  # seconds between two looks at whether anybody is still working
PATIENCE = 60.0  # seconds without a single worker after which a fit gives up
AT_ONCE = 8  # answers that are merged together


def find_client(given: Client | None) -> Client:
    """Return the client that was given, or the current one."""
    if given is None:
        try:
            given = default_client()
        except ValueError:
            raise ValueError(
                "There is no Dask client; start one, as with distributed.Client(), or give client=."
            ) from None
    if not isinstance(given, Client):
        raise TypeError(
            f"client={given!r} is no distributed.Client; give one, or None for the current one."
        )
    if given.status != "running":
        raise ValueError(f"The Dask client is {given.status}; give client= one that is running.")
    return given


@dataclass
class Cluster:
    """Workers behind a client; ``round_trips`` counts the questions that were waited for."""

    client: Client
    patience: float = PATIENCE
    round_trips: int = 0

    def start(self, tasks: Sequence[Any]) -> list[Future]:
        """Have delayed tasks computed, and leave what comes out on the workers."""
        return list(self.client.compute(list(tasks)))

    def gather(self, futures: Sequence[Future]) -> list[Any]:
        """Wait for all answers, and bring them here."""
        self.round_trips += 1
        self._wait(futures)
        return list(self.client.gather(list(futures)))

    def merge(
        self,
        function: Callable[..., Any],
        parts: Sequence[Future],
        merge: Callable[[list[Any]], Any],
        *shared: Any,
    ) -> Any:
        """Return ``merge`` of ``function(part, *shared)`` of all parts, in one round trip."""
        # Sent once, to a worker; from there it can be had again when that worker is lost.
        sent = [self.client.submit(_itself, each, pure=False) for each in shared]
        copies = ([each] * len(parts) for each in sent)
        found = self.client.map(function, parts, *copies, pure=False)
        return self._merge(found, merge)

    def merge_tasks(self, tasks: Sequence[Any], merge: Callable[[list[Any]], Any]) -> Any:
        """Return ``merge`` of what delayed tasks give, in one round trip."""
        return self._merge(self.start(tasks), merge)

    def _merge(self, found: list[Future], merge: Callable[[list[Any]], Any]) -> Any:
        while True:
            groups = [found[i : i + AT_ONCE] for i in range(0, len(found), AT_ONCE)]
            found = [self.client.submit(merge, group, pure=False) for group in groups]
            if len(found) == 1:
                return self.gather(found)[0]

    def _wait(self, futures: Sequence[Future]) -> None:
        """Wait, and say in a sentence when nobody is left who works, or workers keep dying."""
        last_seen = clock.monotonic()
        while True:
            try:
                with self.client.as_current():  # which need not be the default one
                    wait(list(futures), timeout=PULSE)
            except TimeoutError:
                if self._n_workers():
                    last_seen = clock.monotonic()
                elif clock.monotonic() - last_seen > self.patience:
                    raise lost(f"has had no workers for {self.patience:g} s") from None
                continue
            except CommClosedError:
                raise lost("cannot be reached any more") from None
            break
        for future in futures:
            if future.status == "error" and isinstance(future.exception(), KilledWorker):
                raise lost("lost a worker each time that a partition was worked on") from None
            if future.status in ("cancelled", "lost"):
                raise lost("has forgotten what it was asked")

    def _n_workers(self) -> int:
        return len(self.client.scheduler_info(n_workers=-1)["workers"])


def lost(what: str) -> ConnectionError:
    """Say that a fit cannot go on."""
    return ConnectionError(
        f"The Dask cluster {what}; start workers with more memory, or give more and smaller "
        "partitions, and fit again."
    )


def _itself(value: Any) -> Any:
    return value
