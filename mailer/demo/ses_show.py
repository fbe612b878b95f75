"""The show over a fake Amazon SES: a throttle, a lost answer, and a suspended account."""

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from mailer import fake_ses, operations, reports
from mailer.circuit import CircuitState
from mailer.demo.ses_story import (
    LATE_STORIES,
    STORIES,
    after_recovery,
    contradictions,
    entries,
    untrue_of_the_circuit,
)
from mailer.demo.stage import OPERATOR, Stage
from mailer.demo.story import Promise
from mailer.fake_ses import Accepted, FakeSes
from mailer.outcome import Outcome
from mailer.settings_fields import Settings
from mailer.states import RowState
from mailer.views import CircuitView, Timeline

SHOWN = (
    "The record and the log of the fake SES agree: six messages taken, each of them once, with",
    "one request for each attempt; the suspended account cost nobody an attempt of its budget.",
    "This was one process on SQLite, and a stand-in for SES that checks no signature and knows",
    "no reputation. Production is PostgreSQL, worker processes that may be killed at any moment,",
    "and an account of yours.",
)
COMMANDS = ("status", "provider list", "show 3", "show 4")

NEWS: Mapping[str, str] = {
    Outcome.ACCEPTED: "SES took responsibility",
    Outcome.RETRYABLE: "not taken ({code}): {decision}, and no attempt of its budget is spent",
    Outcome.PERMANENT: "refused for good ({code}): another try cannot help",
    Outcome.AMBIGUOUS: "{code} after the request: it may have been taken, so it waits",
}

_PROBE_SECONDS = 1.0
_AWS = {
    "AWS_ACCESS_KEY_ID": "fake",
    "AWS_SECRET_ACCESS_KEY": "fake",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "NO_PROXY": "*",
}


def play(stage: Stage) -> None:
    """Go through all chapters."""
    with _own_aws_settings(), fake_ses.running() as fake:
        # One call at a time: the first to meet the suspended account keeps the others from it.
        settings = stage.settings(fake.provider_url, MAILER_CONCURRENCY="1", MAILER_BATCH="3")
        show = _Show(stage, fake)
        show.sign_up(settings)
        with stage.worker(settings):
            for chapter in (show.send, show.settle, show.suspend, show.recover):
                if not stage.broken:
                    chapter()
        stage.screen.title("6. What `mailer show` has on each of them")
        stage.tell()


@dataclass(frozen=True, slots=True)
class _Show:
    """The chapters."""

    stage: Stage
    fake: FakeSes

    def sign_up(self, settings: Settings) -> None:
        """The first three, while no worker runs."""
        screen = self.stage.screen
        screen.title("mailer demo, over Amazon SES")
        screen.say(
            f"One process: SQLite in {self.stage.folder},",
            f"a worker, and a fake SES on {self.fake.url} to which boto3 talks.",
            "Nothing leaves this machine, and none of your settings are read, AWS's included.",
        )
        screen.title("1. An application signs people up")
        screen.say("Each account and the intent to welcome it are one transaction:")
        with self.stage.application(settings) as app:
            self.stage.sign_up(app, STORIES)

    def send(self) -> None:
        """A message taken, one throttled, and one whose acceptance nobody can know."""
        self.stage.screen.title("2. A worker sends")
        self.stage.screen.say(
            "SES takes Ana's mail at once, and finds Ben's too fast. It takes Dan's, and answers",
            "with a server error: AWS warns that repeating after one makes duplicates.",
        )
        self.stage.watch(NEWS)
        self._check(STORIES, settled=False)
        circuit = self._circuit()
        if circuit.slowed >= 1:
            self.stage.broken.append("the throttle answer has slowed nothing down")
        self.stage.screen.say(
            f"The throttle has slowed all workers down, to {circuit.slowed:.0%} of "
            f"{circuit.rate or 0:g} recipients a second; within a minute they are back."
        )

    def settle(self) -> None:
        """The operator looks."""
        self.stage.screen.title("3. An operator settles what is in doubt")
        for each in self.stage.timelines():
            if each.message.state == RowState.AMBIGUOUS:
                number = each.message.id
                self.stage.screen.say(
                    f"The fake's log has the tag of the attempt on message {number}; the real SES",
                    "would send an event with that tag.",
                )
                proof = entries(each, self.fake.accepted())[0]
                self.stage.settle(number, ses_line(proof), "log of the fake SES")
        self._check(STORIES, settled=True)

    def suspend(self) -> None:
        """The account is suspended: the circuit opens, and everything waits."""
        self.stage.screen.title("4. The account is suspended")
        self.fake.set_state(suspended=True)
        self.stage.screen.say("People go on signing up:")
        with self.stage.application_beside_worker() as app:
            self.stage.sign_up(app, LATE_STORIES)
        self.stage.watch(NEWS, first=len(STORIES), until=self._is_held)
        if self.stage.broken:
            return
        self._check((*STORIES, *LATE_STORIES), settled=True)
        self.stage.screen.say(
            "One message has met it. The circuit is open: nothing is claimed, nothing is lost.",
            "That is what `mailer provider list` has:",
        )
        self.stage.screen.providers(reports.providers())

    def recover(self) -> None:
        """The account is lifted: one probe, then the rest."""
        self.stage.screen.title("5. AWS lifts the suspension")
        self.fake.set_state(suspended=False)
        name, why = self._circuit().name, "AWS has lifted the suspension: probe soon"
        self.stage.screen.say(
            "The probe would come by itself; the operator wants it sooner and types:",
            f"  mailer provider open {shlex.quote(name)} --for {_PROBE_SECONDS:g}s "
            f"--why {shlex.quote(why)}",
            "One message probes; when SES has taken it the circuit closes, and the rest go out.",
        )
        operations.open_circuit(name, seconds=_PROBE_SECONDS, actor=OPERATOR, why=why)
        self.stage.watch(NEWS, first=len(STORIES), until=self._is_recovered)
        if self.stage.broken:
            return
        self._check((*STORIES, *after_recovery(LATE_STORIES)), settled=True)
        late = self.stage.timelines()[len(STORIES) :]
        self.stage.broken += untrue_of_the_circuit(self._circuit(), late)

    def _is_held(self, told: Sequence[Timeline]) -> bool:
        is_open = self._circuit().state == CircuitState.OPEN
        return is_open and all(each.message.state == RowState.PENDING for each in told)

    def _is_recovered(self, told: Sequence[Timeline]) -> bool:
        is_closed = self._circuit().state == CircuitState.CLOSED
        return is_closed and all(each.message.state == RowState.SUBMITTED for each in told)

    def _circuit(self) -> CircuitView:
        (circuit,) = reports.providers().providers
        return circuit

    def _check(self, stories: Sequence[Promise], *, settled: bool) -> None:
        self.stage.broken += contradictions(
            stories,
            self.stage.timelines(),
            self.fake.accepted(),
            calls=self.fake.calls(),
            settled=settled,
        )


def ses_line(taken: Accepted) -> str:
    """What the fake's log has on a message it took, with the address left out."""
    return (
        f"{taken.at:%H:%M:%S} message id {taken.message_id}, mailer-outbox {taken.outbox_id}, "
        f"mailer-attempt {taken.attempt}: accepted"
    )


@contextmanager
def _own_aws_settings() -> Iterator[None]:
    """Have this process's environment say nothing of the user's to the SDK, for the block.

    A proxy of theirs would otherwise be told of the loopback address, and be asked to reach it.
    """
    theirs = {name: value for name, value in os.environ.items() if _is_read_by_the_sdk(name)}
    for name in theirs:
        del os.environ[name]
    os.environ.update(_AWS)
    try:
        yield
    finally:
        for name in _AWS:
            del os.environ[name]
        os.environ.update(theirs)


def _is_read_by_the_sdk(name: str) -> bool:
    return name.startswith(("AWS_", "BOTO_")) or name.lower().endswith("_proxy")
