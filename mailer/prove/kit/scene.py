"""One scenario, set up: a database, two providers and their logs, two workers, an application."""

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from mailer import operations
from mailer.errors import MailerError
from mailer.prove.kit import providers
from mailer.prove.kit.application import Application, Message, application
from mailer.prove.kit.intents import LOST, MARK, Intent
from mailer.prove.kit.ledger import Ledger
from mailer.prove.kit.plan import Plan, Through
from mailer.prove.kit.post import Post
from mailer.prove.kit.providers import Accepted, read_log
from mailer.prove.kit.stage import Stage
from mailer.prove.kit.talk import Opaque, PostgresTalk, SesTalk, SmtpTalk, Talk
from mailer.prove.kit.waiting import eventually
from mailer.prove.kit.wire import Wire
from mailer.session import sitting

CONCURRENCY = 4
LEASE_SECONDS = 3.0
SETTLE_SECONDS = 60.0
LATE_SECONDS = 8.0
_TRANSACTION = 5
"""Messages in one transaction of the application."""

SECRET = f"{MARK}-secret-of-the-kit"
_WORKING = {
    "MAILER_FROM": f"{MARK} <{MARK}@example.com>",
    "MAILER_SECRET": SECRET,
    "MAILER_LEASE_SECONDS": f"{LEASE_SECONDS:g}",
    "MAILER_POLL_SECONDS": "0.2",
    "MAILER_CONCURRENCY": str(CONCURRENCY),
    "MAILER_BATCH": "5",
    "MAILER_RETRY_BASE": "1",
    "MAILER_RETRY_CAP": "1",
    "MAILER_AMBIGUOUS_WAIT": "1",
    "MAILER_SHUTDOWN_SECONDS": "5",
    "AWS_ACCESS_KEY_ID": f"AKID{MARK.upper()}",
    "AWS_SECRET_ACCESS_KEY": f"{MARK}/wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": "/nonexistent/config",
    "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent/credentials",
}

_REST = """
SELECT count(*),
    count(*) FILTER (WHERE state IN ('pending', 'sending') OR state = 'ambiguous'
        AND (on_ambiguous = 'assume_sent' OR on_ambiguous = 'resend' AND resends = 0)),
    count(*) FILTER (WHERE state = 'ambiguous' AND dedup_key <> ALL (%s))
FROM email_outbox
"""
_OPEN_CIRCUITS = "SELECT name FROM email_provider WHERE state <> 'closed'"


@dataclass
class Scene:
    """What a fault may touch. `providers` are wires, one for each provider that is used."""

    stage: Stage
    ledger: Ledger
    database: Wire
    hints: Wire
    providers: list[Wire]
    posts: list[Post]
    application: Application
    logs: list[Path]
    folder: Path
    asked: list[Intent] = field(default_factory=list)
    """All that the application was told to commit so far, or to think better of."""
    skipped: list[str] = field(default_factory=list)

    def commit(self, intents: Sequence[Intent]) -> None:
        """Have the application commit these, and roll back those that it thinks better of."""
        self.asked.extend(intents)
        for commits in (True, False):
            chosen = [_asked(each) for each in intents if each.commits is commits]
            for begin in range(0, len(chosen), _TRANSACTION):
                self.application.ask(chosen[begin : begin + _TRANSACTION], commits=commits)

    def accepted(self) -> list[Accepted]:
        """Return what the providers have taken, by their own logs."""
        return [entry for log in self.logs for entry in read_log(log)]

    def taken(self) -> int:
        """Return how many messages the providers have taken."""
        return sum(log.read_bytes().count(b"\n") for log in self.logs if log.exists())

    def wait_settled(self, intents: Sequence[Intent], may_doubt: int) -> None:
        """Return once all is at rest, an operator keeping the circuits closed.

        What is in doubt rests too, unless it is more than the faults can explain: then a late
        answer may still be on its way, and is given some time.
        """
        committed = sum(each.commits for each in intents)
        lost = [each.key for each in intents if each.has_temper(LOST)]
        deadline = time.monotonic() + LATE_SECONDS

        def settled() -> bool:
            self._close_circuits()
            ((total, moving, doubtful),) = self.ledger.ask(_REST, lost)
            explained = doubtful <= may_doubt or time.monotonic() > deadline
            return bool(total >= committed and not moving and explained)

        eventually(settled, f"{committed} messages settle", patience_seconds=SETTLE_SECONDS)

    def is_moving(self) -> bool:
        """Tell whether a message waits or is under way."""
        ((_, moving, _),) = self.ledger.ask(_REST, [])
        return bool(moving)

    def _close_circuits(self) -> None:
        names = [name for (name,) in self.ledger.ask(_OPEN_CIRCUITS)]
        if not names:
            return
        with sitting(self.ledger.url):
            for name in names:
                with suppress(MailerError):
                    operations.close_circuit(name, actor="crash kit", why="the fault is mended")


def _asked(intent: Intent) -> Message:
    return {"plain": intent.values()} if intent.plain else intent.arguments()


@contextmanager
def scene(stage: Stage, plan: Plan, folder: Path) -> Iterator[Scene]:
    """Set one scenario up, with two workers that have begun to work; take all down afterwards."""
    url = stage.postgres.create_database(stage.template)
    stage.redis.flush()
    try:
        with ExitStack() as stack:
            yield _built(stack, stage, plan, Ledger(url), folder)
    finally:
        stage.postgres.drop_database(url)


def _built(stack: ExitStack, stage: Stage, plan: Plan, ledger: Ledger, folder: Path) -> Scene:
    posts: list[Post] = []

    def wire(target: int, talk: type[Talk]) -> Wire:
        return stack.enter_context(Wire(target, talk, lambda port: _owner(posts, port)))

    here = urlsplit(ledger.url)
    pooler = stage.pgbouncer
    database = wire(pooler.port if pooler else here.port or 0, PostgresTalk)
    hints = wire(urlsplit(stage.redis.url).port or 0, Opaque)
    logs, wires, urls = [], [], []
    for through, talk, run, form in _providers():
        if plan.through in (through, Through.BOTH):
            log = folder / f"{through}.jsonl"
            wires.append(wire(stack.enter_context(run(log, plan.seed)), talk))
            urls.append(form.format(port=wires[-1].port))
            logs.append(log)
    common = {
        **_WORKING,
        "MAILER_PROVIDERS": ",".join(urls),
        "MAILER_STREAM_BULK": ",".join(reversed(urls)),
    }
    worker = {
        **common,
        "DATABASE_URL": here._replace(netloc=f"mailer@127.0.0.1:{database.port}").geturl(),
        "REDIS_URL": f"redis://127.0.0.1:{hints.port}/0",
    }
    for name in ("one", "two"):
        posts.append(Post(name, worker, folder))
        stack.callback(posts[-1].close)
        posts[-1].start()
    told = {**common, "DATABASE_URL": ledger.url, "REDIS_URL": stage.redis.url}
    running = stack.enter_context(application(told, folder))
    for each in posts:
        each.worker.wait_started()
    return Scene(stage, ledger, database, hints, wires, posts, running, logs, folder)


def _providers() -> Iterator[tuple[Through, type[Talk], providers.Run, str]]:
    at = "127.0.0.1:{port}"
    yield Through.SMTP, SmtpTalk, providers.smtp, f"smtp://{at}"
    yield Through.SES, SesTalk, providers.ses, f"ses://eu-west-1?endpoint_url=http://{at}"


def _owner(posts: Sequence[Post], port: int) -> str | None:
    return next((each.name for each in posts if each.owns(port)), None)
