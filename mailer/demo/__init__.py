"""`mailer demo`: four messages from commit to end, in one process, with nothing but this package.

SQLite in a temporary folder, a relay of its own on loopback, and the embedded worker. The
environment's settings are neither read nor changed.
"""

import importlib
import logging
import secrets
import shlex
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import mailer
from mailer import log, operations, reports
from mailer.database import AWAY
from mailer.demo.app import Declined, SignUps, decline
from mailer.demo.screen import Screen, relay_line
from mailer.demo.sink import HOST, Entry, Relay, running
from mailer.demo.story import (
    DECLINED_EMAIL,
    DECLINED_NAME,
    STORIES,
    TEMPERS,
    contradictions,
    is_at_work,
    taken,
)
from mailer.errors import MailerError
from mailer.migrations import migrate
from mailer.settings import load
from mailer.settings_fields import Settings
from mailer.states import Resolution, RowState
from mailer.views import Timeline

PATIENCE_SECONDS = 12.0
"""How long the worker may take; it needs about three."""

INTERRUPTED = 130
"""The exit status of a program that Ctrl-C has ended: 128 + SIGINT."""

_LOOK_SECONDS = 0.05
_DATABASE = "mailer.db"
_LOG = "worker.log"
_TEMPLATES = Path(__file__).with_name("templates")
_OPERATOR = "demo"
_COMMANDS = (
    "status",
    "list --state failed",
    "requeue 3 --why 'the mailbox exists now'",
    "show 3",
)


def main(*, seconds: float | None = None) -> int:
    """Run the demo and return its exit status: 0, 1 with a sentence, or 130 after Ctrl-C.

    `seconds` bounds how long the worker may take. The folder with the database is kept, so that
    the other commands can look at it, unless the demo is interrupted.
    """
    folder = Path(tempfile.mkdtemp(prefix="mailer-demo-"))
    demo = _Demo(Screen(), folder, PATIENCE_SECONDS if seconds is None else seconds)
    try:
        demo.play()
        demo.conclude()
    except KeyboardInterrupt:
        shutil.rmtree(folder, ignore_errors=True)
        demo.screen.complain("Interrupted: all of it is stopped and removed.")
        return INTERRUPTED
    except SystemExit:
        # So rich ends a program whose reader has closed the pipe: nobody will learn of the folder.
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return 1 if demo.broken else 0


@dataclass(slots=True)
class _Demo:
    """The chapters; `broken` gathers a sentence for each thing that was not as promised."""

    screen: Screen
    folder: Path
    patience_seconds: float
    broken: list[str] = field(default_factory=list)
    messages: list[int] = field(default_factory=list)

    def play(self) -> None:
        """Go through all chapters; what stops it on the way is broken too."""
        try:
            self._chapters()
        except (MailerError, OSError, *AWAY) as error:
            self.broken.append(f"the demo could not go on: {error}")

    def _chapters(self) -> None:
        with _logging_to(self.folder / _LOG), running(TEMPERS) as relay:
            settings = _settings(self.folder, relay.port)
            self._introduce(relay)
            self._sign_up(settings)
            with _worker(settings):
                self._watch()
                self._check(relay, settled=False)
                if not self.broken:
                    self._settle(relay)
                    self._check(relay, settled=True)
            self._tell()

    def conclude(self) -> None:
        """Say how it came out, what it was not, and where to look further."""
        if self.broken:
            self.screen.title("Not as promised")
            for each in self.broken:
                self.screen.complain(each)
            self.screen.say(f"What the worker logged: {self.folder / _LOG}")
            return
        self.screen.title("As promised")
        self.screen.say(
            "The record and the relay's log agree: three messages taken, each of them once, one",
            "refused, and nothing of what was rolled back.",
            "This was one process on SQLite with a scripted relay. Production is PostgreSQL,",
            "worker processes that may be killed at any moment, and a provider of yours.",
        )
        self.screen.title("To look further")
        self.screen.say(
            f"export DATABASE_URL={shlex.quote(_database_url(self.folder))}",
            *(f"{_program()} {each}" for each in _COMMANDS),
            f"rm -r {shlex.quote(str(self.folder))}   # when you have seen enough",
        )

    def _introduce(self, relay: Relay) -> None:
        self.screen.title("mailer demo")
        self.screen.say(
            f"One process: SQLite in {self.folder},",
            f"a worker, and an SMTP relay with scripted answers on {HOST}:{relay.port}.",
            "Nothing leaves this machine, and none of your settings are read.",
        )

    def _sign_up(self, settings: Settings) -> None:
        self.screen.title("1. An application signs people up")
        database = mailer.connect(_database_url(self.folder), settings)
        with database.connection_context():
            migrate()
            app = SignUps(database)
            self.screen.say("Each account and the intent to welcome it are one transaction:")
            for story in STORIES:
                welcome = app.sign_up(story.name, story.email)
                self.messages.append(welcome.row.id)
                self.screen.say(f"  {story.name}: an account, and message {welcome.row.id}")
            self._sign_up_in_vain(app)
            self._ask_twice(app)
        self.screen.say("No worker runs yet: what is committed waits, and survives a crash.")

    def _sign_up_in_vain(self, app: SignUps) -> None:
        with suppress(Declined):
            app.sign_up(DECLINED_NAME, DECLINED_EMAIL, decline)
        if app.account_of(DECLINED_EMAIL) is not None:
            self.broken.append("the sign-up that was rolled back left an account")
        self.screen.say(
            f"{DECLINED_NAME}'s payment is declined: account and intent are rolled back together.",
        )

    def _ask_twice(self, app: SignUps) -> None:
        story = STORIES[0]
        account = app.account_of(story.email)
        if account is None:
            self.broken.append(f"{story.name}'s account is missing")
            return
        row, created = app.welcome(account)
        if created:
            self.broken.append("asking twice under one key made two messages")
        self.screen.say(
            f"{story.name}'s form arrives twice: the same key is the same message, {row.id}."
        )

    def _watch(self) -> None:
        self.screen.title("2. A worker sends")
        self.screen.say(
            "The relay takes Ana's mail at once, and Ben's when asked again (greylisting). It",
            "knows no Cleo. It takes Dan's, and the connection is lost before it can say so.",
        )
        deadline = time.monotonic() + self.patience_seconds
        with self.screen.board() as board:
            while True:
                told = self._timelines()
                board.show(told)
                if not any(is_at_work(each) for each in told):
                    return
                if time.monotonic() > deadline:
                    late = f"the worker was not done after {self.patience_seconds:g} s"
                    self.broken.append(late)
                    return
                time.sleep(_LOOK_SECONDS)

    def _settle(self, relay: Relay) -> None:
        self.screen.title("3. An operator settles what is in doubt")
        for each in self._timelines():
            if each.message.state == RowState.AMBIGUOUS:
                self._settle_one(each.message.id, taken(each, relay.log)[0])

    def _settle_one(self, outbox_id: int, proof: Entry) -> None:
        why = f"relay log: {relay_line(proof)}"
        self.screen.say(
            f"The relay's own log is the evidence on message {outbox_id}:",
            f"  {relay_line(proof)}",
            "so the operator types:",
            f"  mailer resolve {outbox_id} --as accepted --why {shlex.quote(why)}",
        )
        decided = operations.resolve(outbox_id, Resolution.ACCEPTED, actor=_OPERATOR, why=why)
        self.screen.say(
            f"Message {outbox_id}: {decided.before} -> {decided.after}. Sent again on a guess, it "
            "would have arrived twice."
        )

    def _check(self, relay: Relay, *, settled: bool) -> None:
        self.broken += contradictions(self._timelines(), relay.log, settled=settled)

    def _timelines(self) -> list[Timeline]:
        return [reports.timeline(each, max_resends=0) for each in self.messages]

    def _tell(self) -> None:
        self.screen.title("4. What `mailer show` has on each of them")
        for each in self._timelines():
            self.screen.timeline(each)


def _settings(folder: Path, port: int) -> Settings:
    """Settings with short waits, made from nothing but this."""
    return load(
        {
            "DATABASE_URL": _database_url(folder),
            "MAILER_PROVIDERS": f"smtp://{HOST}:{port}?tls=none&timeout=5&data_timeout=5",
            "MAILER_FROM": "Sign-up demo <welcome@example.com>",
            "MAILER_SECRET": secrets.token_hex(16),
            "MAILER_TEMPLATES": str(_TEMPLATES),
            "MAILER_LEASE_SECONDS": "5",
            "MAILER_POLL_SECONDS": "0.2",
            "MAILER_RETRY_BASE": "1",
            "MAILER_BATCH": "20",
            "MAILER_CONCURRENCY": "4",
            "MAILER_SHUTDOWN_SECONDS": "5",
        },
        role="worker",
    )


def _database_url(folder: Path) -> str:
    return f"sqlite:///{folder / _DATABASE}"


def _worker(settings: Settings) -> AbstractContextManager[None]:
    # Nothing imports `actors`, so that applications never load dramatiq: this door asks by name.
    embedded = importlib.import_module("actors.embedded")
    worker: AbstractContextManager[None] = embedded.running(settings)
    return worker


def _program() -> str:
    """How to call the console script that belongs to this very installation."""
    ours = Path(sys.executable).with_name("mailer")
    found = shutil.which("mailer")
    if found is None or not ours.exists() or not Path(found).samefile(ours):
        return shlex.quote(str(ours))
    return "mailer"


@contextmanager
def _logging_to(path: Path) -> Iterator[None]:
    """Send the worker's log lines to a file, and leave the process's logging as it was."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    hooks = sys.excepthook, threading.excepthook
    with path.open("w", encoding="utf-8") as stream:
        log.configure("json", stream=stream)
        try:
            yield
        finally:
            root.handlers[:] = handlers
            root.setLevel(level)
            sys.excepthook, threading.excepthook = hooks
