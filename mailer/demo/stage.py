"""What every show of the demo plays on: a folder with its database, an application, a worker."""

import importlib
import logging
import secrets
import shlex
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import mailer
from mailer import log, operations, reports
from mailer.database import connected
from mailer.demo.app import SignUps
from mailer.demo.screen import Screen
from mailer.demo.story import Promise, is_at_work
from mailer.migrations import migrate
from mailer.settings import load
from mailer.settings_fields import Settings
from mailer.states import Resolution
from mailer.views import Timeline

OPERATOR = "demo"

_LOOK_SECONDS = 0.05
_DATABASE = "mailer.db"
_LOG = "worker.log"
_TEMPLATES = Path(__file__).with_name("templates")


@dataclass(slots=True)
class Stage:
    """`broken` gathers a sentence for each thing that was not as promised."""

    screen: Screen
    folder: Path
    patience_seconds: float
    broken: list[str] = field(default_factory=list)
    messages: list[int] = field(default_factory=list)
    _deadline: float = float("inf")

    @property
    def database_url(self) -> str:
        """Where the show's database is."""
        return f"sqlite:///{self.folder / _DATABASE}"

    @property
    def log_path(self) -> Path:
        """Where the worker's log is."""
        return self.folder / _LOG

    def settings(self, provider_url: str, **more: str) -> Settings:
        """Return settings with short waits, made from nothing but this."""
        return load(
            {
                "DATABASE_URL": self.database_url,
                "MAILER_PROVIDERS": provider_url,
                "MAILER_FROM": "Sign-up demo <welcome@example.com>",
                "MAILER_SECRET": secrets.token_hex(16),
                "MAILER_TEMPLATES": str(_TEMPLATES),
                "MAILER_LEASE_SECONDS": "5",
                "MAILER_POLL_SECONDS": "0.2",
                "MAILER_RETRY_BASE": "1",
                "MAILER_BATCH": "20",
                "MAILER_CONCURRENCY": "4",
                "MAILER_SHUTDOWN_SECONDS": "5",
                **more,
            },
            role="worker",
        )

    @contextmanager
    def application(self, settings: Settings) -> Iterator[SignUps]:
        """Have the application at work for the length of the block, before the worker is."""
        database = mailer.connect(self.database_url, settings)
        with database.connection_context():
            migrate()
            yield SignUps(database)

    @contextmanager
    def application_beside_worker(self) -> Iterator[SignUps]:
        """Have it at work while the worker runs: in one process both are bound to one database."""
        with connected() as database:
            yield SignUps(database)

    def sign_up(self, app: SignUps, stories: Sequence[Promise]) -> None:
        """Sign people up, each with the intent to welcome them, one transaction each."""
        for story in stories:
            welcome = app.sign_up(story.name, story.email)
            self.messages.append(welcome.row.id)
            self.screen.say(f"  {story.name}: an account, and message {welcome.row.id}")

    @contextmanager
    def worker(self, settings: Settings) -> Iterator[None]:
        """Run the embedded worker for the length of the block; from now on time runs out."""
        # Nothing imports `actors`, so that applications never load dramatiq: this asks by name.
        embedded = importlib.import_module("actors.embedded")
        self._deadline = time.monotonic() + self.patience_seconds
        with embedded.running(settings):
            yield

    def watch(
        self,
        news: Mapping[str, str],
        *,
        first: int = 0,
        until: Callable[[Sequence[Timeline]], bool] | None = None,
    ) -> None:
        """Show the messages from place `first` on until the worker has nothing left to do.

        `news` has a sentence for each outcome of an attempt. `until` may name another end.
        """
        is_over = until or _is_at_rest
        with self.screen.board(news) as board:
            while True:
                told = self.timelines()[first:]
                board.show(told)
                if is_over(told):
                    return
                if time.monotonic() > self._deadline:
                    late = f"the worker was not done after {self.patience_seconds:g} s"
                    self.broken.append(late)
                    return
                time.sleep(_LOOK_SECONDS)

    def settle(self, outbox_id: int, evidence: str, source: str) -> None:
        """Settle a message in doubt as accepted, as an operator does who has found it."""
        why = f"{source}: {evidence}"
        self.screen.say(
            f"  {evidence}",
            "so the operator types:",
            f"  mailer resolve {outbox_id} --as accepted --why {shlex.quote(why)}",
        )
        decided = operations.resolve(outbox_id, Resolution.ACCEPTED, actor=OPERATOR, why=why)
        self.screen.say(
            f"Message {outbox_id}: {decided.before} -> {decided.after}. Sent again on a guess, it "
            "would have arrived twice."
        )

    def timelines(self) -> list[Timeline]:
        """Return what is on record about each message."""
        return [reports.timeline(each, max_resends=0) for each in self.messages]

    def tell(self) -> None:
        """Show what is on record about each message."""
        for each in self.timelines():
            self.screen.timeline(each)

    @contextmanager
    def logging(self) -> Iterator[None]:
        """Send log lines to a file, and leave the process's logging as it was."""
        root = logging.getLogger()
        handlers, level = list(root.handlers), root.level
        hooks = sys.excepthook, threading.excepthook
        with self.log_path.open("w", encoding="utf-8") as stream:
            log.configure("json", stream=stream)
            try:
                yield
            finally:
                root.handlers[:] = handlers
                root.setLevel(level)
                sys.excepthook, threading.excepthook = hooks


def _is_at_rest(told: Sequence[Timeline]) -> bool:
    return not any(is_at_work(each) for each in told)


def program() -> str:
    """How to call the console script that belongs to this very installation."""
    ours = Path(sys.executable).with_name("mailer")
    found = shutil.which("mailer")
    if found is None or not ours.exists() or not Path(found).samefile(ours):
        return shlex.quote(str(ours))
    return "mailer"
