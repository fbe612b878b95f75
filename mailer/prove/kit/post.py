"""A worker's place: who works there now, and who worked there before."""

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import psutil

from mailer.prove.kit.fleet import ROOT, Worker

_FAKETIME = Path(__file__).with_name("faketime")
"""Put before everything else where libfaketime is: see there."""


class Post:
    """One of the places that a platform keeps filled: when its worker dies, another one comes."""

    def __init__(self, name: str, variables: Mapping[str, str], folder: Path) -> None:
        self.name = name
        self.workers: list[Worker] = []
        self._variables = dict(variables)
        self._folder = folder

    @property
    def worker(self) -> Worker:
        """Who works here now."""
        return self.workers[-1]

    def start(self) -> None:
        """Fill the place, beside whoever still works there."""
        self.workers.append(Worker(self._variables, self._folder))

    def fill(self) -> None:
        """Start a worker if there is none."""
        if self.worker.has_ended():
            self.start()

    def keep_clock(self, library: Path, offset_seconds: int) -> None:
        """Give whoever starts here from now on a wall clock that is off."""
        self._variables |= {
            "LD_PRELOAD": str(library),
            "FAKETIME": f"{offset_seconds:+d}s",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "DONT_FAKE_MONOTONIC": "1",
            "PYTHONPATH": f"{_FAKETIME}{os.pathsep}{ROOT}",
        }

    def kill(self) -> None:
        """Kill all processes of the current worker."""
        if not self.worker.has_ended():
            self.worker.kill()

    def stop(self) -> None:
        """Stop everybody here in good order; raises InVain where one outstays its time."""
        here = [each for each in self.workers if not each.has_ended()]
        for each in here:
            each.terminate()
        for each in here:
            each.wait_exit()

    def owns(self, port: int) -> bool:
        """Tell whether one of its workers has this local port."""
        return any(_has_port(pid, port) for each in self.workers for pid in each.pids())

    def close(self) -> None:
        """End everybody, whatever state they are in."""
        for each in self.workers:
            each.__exit__()


def _has_port(pid: int, port: int) -> bool:
    with suppress(psutil.Error):
        found = psutil.Process(pid).net_connections(kind="tcp4")
        return any(each.laddr and each.laddr[1] == port for each in found)
    return False
