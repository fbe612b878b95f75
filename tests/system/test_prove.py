"""`mailer prove` over seeds that together bring about every fault but the one of the clock.

And a product that lies is caught: with the seed, and status 1.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from mailer.prove.kit.campaign import campaign
from mailer.prove.kit.plan import Fault, Plan, Through, plan
from mailer.prove.kit.play import Result, Tell, play
from mailer.prove.kit.smtp_script import Acts
from mailer.prove.kit.smtp_server import DEFAULTS, Conversation, SmtpServer
from mailer.prove.kit.smtp_sink import Sink
from mailer.prove.kit.stage import stage
from tests.conftest import server_or_skip

SHARES = ((4308, 13048, 37932), (31646, 35855, 37115), (46165, 51272))
ONLY_WITH_FAKETIME = {Fault.CLOCK_OFF}


@pytest.fixture(autouse=True)
def servers(bare_environment: None) -> None:
    """A machine without servers proves nothing."""
    from mailer.prove.kit.binaries import find_postgres, find_redis

    with server_or_skip():
        find_postgres()
        find_redis()


def test_the_seeds_bring_about_every_fault() -> None:
    faults = {
        each for share in SHARES for seed in share for each in plan(seed, Through.BOTH).faults
    }
    assert faults == set(Fault) - ONLY_WITH_FAKETIME


@pytest.mark.timeout(400)
def test_nothing_is_lost_and_nothing_doubled(tmp_path: Path) -> None:
    """Some runs beside each other, because each mostly waits for leases to end."""
    with ExitStack() as stack:
        running = [
            stack.enter_context(_prove(seeds, tmp_path / f"{number}"))
            for number, seeds in enumerate(SHARES)
        ]
        for each in running:
            stack.callback(each.terminate)
        ends = [each.communicate() for each in running]
    for share, process, (told, said) in zip(SHARES, running, ends, strict=True):
        report = json.loads(told)
        assert (process.returncode, report["breaks"]) == (0, []), said
        assert [each["seed"] for each in report["results"]] == list(share)
        assert (report["lost"], report["duplicates"]) == (0, 0)
        assert report["submitted"] > report["committed"] // 2


def _prove(seeds: tuple[int, ...], folder: Path) -> "subprocess.Popen[str]":
    words = [word for seed in seeds for word in ("--seed", str(seed))]
    return subprocess.Popen(
        [Path(sys.executable).with_name("mailer"), "prove", "--json", *words, "--keep", folder],
        env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


class LyingSink(Sink):
    """Acknowledges every fourth message, and keeps nothing of it; logs another fourth twice."""

    def __init__(self, log: Path) -> None:
        super().__init__(log)
        self._met = 0

    def respond(self, step: str, line: bytes, talk: Conversation) -> Acts:
        """Answer as if all were well."""
        if step != "dot":
            return super().respond(step, line, talk)
        self._met += 1
        if self._met % 4 == 0:
            talk.record.contents.pop()
            talk.record.dots -= 1
            return DEFAULTS["dot"]
        content = bytearray(talk.record.contents[-1])
        acts = super().respond(step, line, talk)
        if self._met % 4 == 1:
            talk.record.contents.append(content)
            talk.record.dots += 1
            super().respond(step, line, talk)
        return acts


@contextmanager
def lying_smtp(log: Path, seed: int) -> Iterator[int]:
    sink = LyingSink(log)
    with SmtpServer(lambda _: sink) as server:
        yield server.port
    sink.close()


def test_a_provider_that_lies_is_caught_with_the_seed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mailer.prove.kit.providers.smtp", lying_smtp)

    def without_faults(here: object, drawn: Plan, tell: Tell) -> Result:
        calm = Plan(drawn.seed, drawn.through, (), drawn.last_wave)
        return play(here, calm, tell)  # type: ignore[arg-type]

    with stage(tmp_path) as here:
        report = campaign(here, range(1, 5), Through.SMTP, player=without_faults)
    assert report.broken is not None
    assert report.broken.seed == 1
    assert {each.invariant for each in report.broken.breaks} == {"I2", "I3"}
    assert (report.totals.lost > 0, report.totals.duplicates > 0) == (True, True)
