"""The Procfile's own commands, each in a process group that can be killed."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import psutil

from mailer.prove.kit.waiting import InVain, eventually

EXIT_SECONDS = 25.0
"""A platform kills a process that has not ended this long after SIGTERM, and a little more."""

ROOT = Path(__file__).parents[3]
"""What holds the packages; in a checkout, the Procfile too."""

_PROCFILES = (ROOT / "Procfile", Path(__file__).with_name("Procfile"))
"""A wheel has no top level of its own: there the Procfile lies beside this module."""

# Ends the group however this process ends: its input is closed then. A line on it: all is well.
_KEEPER = 'read -r well || kill -s KILL -- "-$1"'


def procfile_command(entry: str) -> str:
    """Return the command line of one entry of the Procfile."""
    procfile = next(each for each in _PROCFILES if each.exists())
    lines = procfile.read_text().splitlines()
    commands = dict(line.split(": ", 1) for line in lines if line)
    return commands[entry]


def process_environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Return an environment with our programs in it, `variables`, and nothing of our own."""
    programs = Path(sys.executable).parent
    return {
        "PATH": f"{programs}{os.pathsep}{os.defpath}",
        "PYTHONPATH": str(ROOT),
        "LC_ALL": "C.UTF-8",
        **variables,
    }


class Started:
    """One start of an entry of the Procfile, with all its processes, logging to a file.

    It works in `folder`, where no `.env` file of anybody's is found.
    """

    entry: str

    def __init__(self, variables: Mapping[str, str], folder: Path) -> None:
        number = len(list(folder.glob(f"{self.entry}-*.log")))
        self._log = folder / f"{self.entry}-{number}.log"
        with self._log.open("wb") as log:
            self._main = subprocess.Popen(
                ["/bin/sh", "-c", procfile_command(self.entry)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=folder,
                env=process_environment(variables),
                start_new_session=True,
            )
        self._keeper = subprocess.Popen(
            ["/bin/sh", "-c", _KEEPER, "keeper", str(self._main.pid)],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if not self.has_ended():
            self.resume()
            self.kill()
        self._dismiss_keeper()

    @property
    def log(self) -> str:
        """All that it has written to its two outputs."""
        return self._log.read_text()

    def events(self, name: str) -> list[dict[str, Any]]:
        """Return the log's lines of this event."""
        lines = [json.loads(line) for line in self.log.splitlines() if line.startswith("{")]
        return [each for each in lines if each["event"] == name]

    def wait_started(self, processes: int = 1) -> None:
        """Return once so many processes have said that they work."""
        started = f"{self.entry} started"
        eventually(
            lambda: len(self.events(started)) >= processes or self._main.poll() is not None,
            started,
        )
        if self._main.poll() is not None:
            raise InVain(f"{started}; it ended instead: {self.log}")

    def processes(self) -> list[psutil.Process]:
        """Return the processes that work: dramatiq's children."""
        return psutil.Process(self._main.pid).children()

    def pids(self) -> set[int]:
        """Return the ids of all its processes that live; none once it has ended."""
        with suppress(psutil.Error):
            first = psutil.Process(self._main.pid)
            return {first.pid, *(each.pid for each in first.children(recursive=True))}
        return set()

    def _family(self) -> list[psutil.Process]:
        """Any of them may be about to end by itself."""
        with suppress(psutil.Error):
            return [psutil.Process(self._main.pid), *self.processes()]
        return []

    def has_ended(self) -> bool:
        """Whether the first process is gone."""
        return self._main.poll() is not None

    def kill(self) -> None:
        """End all processes at once, as the kernel does when memory runs out."""
        family = self._family()
        with suppress(ProcessLookupError):
            os.killpg(self._main.pid, signal.SIGKILL)
        self._main.wait(EXIT_SECONDS)
        _require_gone(family, EXIT_SECONDS)

    def pause(self) -> None:
        """Stop all processes where they are, as a machine does that goes to sleep."""
        os.killpg(self._main.pid, signal.SIGSTOP)
        family = self._family()
        eventually(lambda: all(map(_stands_still, family)), "all processes stand still")

    def resume(self) -> None:
        """Let paused processes go on."""
        os.killpg(self._main.pid, signal.SIGCONT)

    def terminate(self) -> None:
        """Ask for the end, as a platform does: the first process alone is told."""
        self._main.send_signal(signal.SIGTERM)

    def wait_exit(self) -> int:
        """Return the exit code; fail when it outstays a platform's patience."""
        family = self._family()
        try:
            code = self._main.wait(EXIT_SECONDS)
        except subprocess.TimeoutExpired:
            raise InVain(f"the {self.entry} ends within {EXIT_SECONDS:g} s of SIGTERM") from None
        _require_gone(family, 1)
        return code

    def stop(self) -> int:
        """Ask for the end and wait for it."""
        self.terminate()
        return self.wait_exit()

    def _dismiss_keeper(self) -> None:
        self._keeper.communicate(b"well\n", timeout=EXIT_SECONDS)


def _stands_still(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return process.status() in {psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE}
    return True


def _require_gone(family: Sequence[psutil.Process], seconds: float) -> None:
    _, alive = psutil.wait_procs(family, seconds)
    if alive:
        raise InVain(f"processes that outlive their first: {[each.pid for each in alive]}")


class Worker(Started):
    """The process that sends, with its children."""

    entry = "worker"


class Web(Started):
    """The process that takes events."""

    entry = "web"
