"""The worker processes of one contestant: started, held still, let go, weighed and ended."""

import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self

import psutil

_END_SECONDS = 10.0
_LAST_WORDS_OCTETS = 2_000


class Failed(Exception):
    """A contestant did not get through; the text says why."""


class Crew:
    """Processes that belong together; those left at the end of the block are ended."""

    def __init__(self) -> None:
        self._processes: list[subprocess.Popen[str]] = []
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the block

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()
        for each in self._processes:
            each.terminate()
        for each in self._processes:
            _end(each)
        self._said.close()

    def launch(self, command: Sequence[str], environ: Mapping[str, str]) -> subprocess.Popen[str]:
        """Start a process; what it says on its error output is kept for when it fails."""
        process = subprocess.Popen(
            command, env=environ, stdout=subprocess.PIPE, stderr=self._said, text=True
        )
        self._processes.append(process)
        return process

    def hear(self, process: subprocess.Popen[str], word: str) -> None:
        """Wait until the process has said the word as a line; raises Failed if it ends before."""
        assert process.stdout is not None
        for line in process.stdout:
            if line.strip() == word:
                return
        raise Failed(f"ended before it was ready: {self._last_words()}")

    def check(self) -> None:
        """Raise Failed if a process has ended."""
        for each in self._processes:
            if each.poll() is not None:
                raise Failed(f"ended with {each.returncode}: {self._last_words()}")

    def hold(self) -> None:
        """Stop every process where it is; it notices nothing."""
        for each in self._members():
            with suppress(psutil.NoSuchProcess):
                each.suspend()

    def release(self) -> None:
        """Let every process go on."""
        for each in self._members():
            with suppress(psutil.NoSuchProcess):
                each.resume()

    def cpu_seconds(self) -> float:
        """User and system time of all processes so far."""
        return sum(cpu_seconds(each.pid) for each in self._processes)

    def largest_megabytes(self) -> float:
        """The resident memory of the largest process."""
        largest = 0
        for each in self._members():
            with suppress(psutil.NoSuchProcess):
                largest = max(largest, each.memory_info().rss)
        return largest / 1e6

    def _members(self) -> list[psutil.Process]:
        found: list[psutil.Process] = []
        for each in self._processes:
            with suppress(psutil.NoSuchProcess):
                root = psutil.Process(each.pid)
                found += [root, *root.children(recursive=True)]
        return found

    def _last_words(self) -> str:
        self._said.seek(0)
        return self._said.read()[-_LAST_WORDS_OCTETS:].decode(errors="replace").strip()


def cpu_seconds(pid: int) -> float:
    """User and system time of a process and its descendants, ended ones included."""
    root = psutil.Process(pid)
    total = 0.0
    for each in [root, *root.children(recursive=True)]:
        try:
            times = each.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total


def _end(process: subprocess.Popen[str]) -> None:
    try:
        process.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        with suppress(psutil.NoSuchProcess):
            for each in psutil.Process(process.pid).children(recursive=True):
                each.kill()
        process.kill()
        process.wait()
    if process.stdout is not None:
        process.stdout.close()
