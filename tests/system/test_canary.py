"""A marked send from end to end: the mark is in no log line, no hint and no error.

The mark stands in every address, subject, body, context, key, user name, password and secret, and
the SMTP server repeats addresses and credentials in its replies.
"""

import base64
import re
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest
import redis as redis_client

from mailer.prove.kit.application import Message
from mailer.prove.kit.fleet import Worker, process_environment
from mailer.prove.kit.ledger import Ledger
from mailer.prove.kit.servers import PostgresServer, RedisServer
from mailer.prove.kit.smtp_server import EHLO_LINES, Act, Acts, Conversation, ehlo, say
from mailer.prove.kit.waiting import eventually
from tests.system.application import carry_out, commit, welcome
from tests.system.conftest import power_cut, settings
from tests.system.sink import GatedSink, SinkLog, served

MARK = "kolibri"

# However the mark is aligned in base64, one of these is in the result.
_ENCODED = [
    base64.b64encode(b"." * shift + MARK.encode())[shift and 4 : -4].decode() for shift in range(3)
]
_TRACE = re.compile("|".join([f"(?i:{MARK})", *map(re.escape, _ENCODED)]))

BROKEN_SETTINGS = {
    "DATABASE_URL": f"postgresql://{MARK}:{MARK}@127.0.0.1:port/{MARK}",
    "REDIS_URL": f"amqp://:{MARK}@127.0.0.1/0",
    "MAILER_PROVIDERS": f"smtp://{MARK}:{MARK}@relay.example.com:587?tls=none",
    "MAILER_FROM": f"{MARK} at example.com",
    "MAILER_SECRET": MARK,
    "MAILER_POLL_SECONDS": f"1 {MARK}",
}

CLOSE_CIRCUITS = """
UPDATE email_provider SET state = 'closed', until = NULL, reason = NULL, permanents = 0
WHERE state <> 'closed' RETURNING id
"""

ERRORS = """
import os
import mailer
from mailer import MailerError

database = mailer.connect(os.environ["DATABASE_URL"])
good = {"dedup_key": "MARK", "to": "MARK@example.com", "subject": "MARK", "text": "MARK"}
mailer.enqueue(**good)
for wrong in (
    {"text": "MARK too"},
    {"to": "MARK at example.com"},
    {"cc": "MARK@example.com, MARK@MARK@example.com"},
    {"subject": "MARK\\r\\nBcc: MARK@example.com"},
    {"headers": {"X-Account": "MARK\\r\\nMARK"}},
    {"sender": "MARK"},
    {"template": "MARK-v1", "context": {"name": "MARK"}},
    {"subject": None, "text": None, "template": "broken-v1", "context": {"name": "MARK"}},
):
    try:
        mailer.enqueue(**(good | wrong))
    except MailerError as error:
        print(type(error).__name__, error)
database.close()
""".replace("MARK", MARK)

LEASE_TOKENS = "SELECT DISTINCT lease_token FROM email_attempt"

INSERT = f"""
INSERT INTO email_outbox (dedup_key, "to", template, context) VALUES
    ('{MARK}:1', '["{MARK}-one@example.com"]', 'broken-v1', '{{"name": "{MARK}"}}'),
    ('{MARK}:2', '["{MARK} two"]', 'welcome-v1', '{{"name": "{MARK}"}}')
"""


class QuotingSink(GatedSink):
    """Repeats addresses in its replies, refuses the first login repeating it, and garbles some."""

    def __init__(self, log: SinkLog, *, closed: tuple[str, ...] = ()) -> None:
        super().__init__(log, closed=closed)
        self.logins = 0

    def respond(self, step: str, line: bytes, talk: Conversation) -> Acts:
        """Answer as the sink does, with more in it than there should be."""
        acts = super().respond(step, line, talk)
        if step == "ehlo":
            return ehlo(*EHLO_LINES, "AUTH PLAIN")
        if step == "auth":
            return self._login(line, acts)
        return _quoting(acts, line, talk) if step in {"mail", "rcpt", "dot"} else acts

    def _login(self, line: bytes, acts: Acts) -> Acts:
        self.logins += 1
        told = line.decode().strip()
        return say(f"535 5.7.8 {told} {MARK} is wrong") if self.logins == 1 else acts


def _quoting(acts: Acts, line: bytes, talk: Conversation) -> Acts:
    if not isinstance(acts, Act) or acts.name != "say":
        return acts
    if line == b"" and any(each.startswith("garble-") for each in talk.recipients):
        return say(f"2x0 {MARK} {talk.recipients[0]}")
    told = line.decode().strip() or ",".join(talk.recipients)
    return Act("say", acts.octets.rstrip() + f" ({told})\r\n".encode())


class Tap:
    """Everything that Redis is told, by MONITOR."""

    def __init__(self, port: int, password: str) -> None:
        self._heard = bytearray()
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.sendall(f"AUTH {password}\r\nMONITOR\r\n".encode())
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        eventually(lambda: self._heard.count(b"+OK") == 2, "Redis is listened to")

    def has_heard(self, word: str) -> bool:
        """Whether Redis was told this word."""
        return word.encode() in self._heard

    def _listen(self) -> None:
        with suppress(ConnectionResetError):
            while octets := self._socket.recv(65536):
                self._heard += octets

    def close(self) -> None:
        """Stop listening."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._listener.join()
        self._socket.close()

    @property
    def hints(self) -> str:
        """What was heard but for how clients log in."""
        lines = self._heard.decode().splitlines()
        return "\n".join(line for line in lines if '"AUTH"' not in line.upper())


@contextmanager
def tapped(server: RedisServer) -> Iterator[tuple[str, Tap]]:
    """Give the URL of a Redis with a password, and what listens to it."""
    password = f"{MARK}-redis"
    with closing(redis_client.Redis.from_url(server.url)) as client:
        client.config_set("requirepass", password)
    tap = Tap(int(server.url.rsplit(":", 1)[1].partition("/")[0]), password)
    try:
        yield server.url.replace("://", f"://:{password}@"), tap
    finally:
        tap.close()


def marked_settings(ledger: Ledger, port: int, redis_url: str, templates: Path) -> dict[str, str]:
    return settings(
        ledger,
        port,
        DATABASE_URL=ledger.url.replace("//mailer@", f"//mailer:{MARK}-database@"),
        REDIS_URL=redis_url,
        MAILER_PROVIDERS=f"smtp://{MARK}-user:{MARK}-password@127.0.0.1:{port}",
        MAILER_FROM=f"{MARK} <{MARK}@example.com>",
        MAILER_SECRET=f"{MARK}-secret-of-the-tests",
        MAILER_TEMPLATES=str(templates),
    )


def marked(temper: str) -> Message:
    return welcome(
        f"{MARK}:{temper}",
        to=f"{temper}-{MARK}@example.com",
        subject=f"About {MARK}",
        text=f"This is for {MARK}.\n",
        html=f"<p>This is for {MARK}.</p>",
        headers={"X-Account": MARK},
    )


def traces(text: str) -> list[str]:
    """Return the lines in which the mark can be read."""
    return [line for line in text.splitlines() if _TRACE.search(line)]


@pytest.fixture
def templates(tmp_path: Path) -> Path:
    folder = tmp_path / "templates"
    for name, body in {"welcome-v1": "{{ name }}", "broken-v1": "{{ name.missing }}"}.items():
        (folder / name).mkdir(parents=True)
        (folder / name / "subject.txt").write_text("For {{ name }}")
        (folder / name / "body.txt").write_text(body)
    return folder


def test_the_mark_is_found_where_it_is() -> None:
    for shift in range(3):
        assert traces(base64.b64encode(b"x" * shift + MARK.encode() + b" and more").decode())
    assert traces(f"to {MARK.upper()}@example.com")
    assert traces("nothing") == []


def wait_with_circuits_closed(ledger: Ledger, **wanted: int) -> None:
    """Wait for these states, closing each circuit that the marked refusals open."""

    def reached() -> bool:
        ledger.ask(CLOSE_CIRCUITS)
        return ledger.states() == Counter(wanted)

    eventually(reached, f"states {wanted}")


def test_a_whole_send_leaves_no_trace(
    ledger: Ledger, redis: RedisServer, sink_log: SinkLog, templates: Path, tmp_path: Path
) -> None:
    tempers = ["plain", "greylist", "refuse", "drop", "garble"]
    with served(QuotingSink(sink_log)) as sink, tapped(redis) as (redis_url, tap):
        variables = marked_settings(ledger, sink.port, redis_url, templates)
        ledger.ask(INSERT)
        with Worker(variables, tmp_path) as worker:
            worker.wait_started()
            carry_out(
                variables,
                tmp_path,
                [(True, [marked(temper)]) for temper in tempers],
                until=lambda: eventually(lambda: tap.has_heard("deliver"), "a hint is sent"),
            )
            wait_with_circuits_closed(ledger, submitted=2, failed=3, ambiguous=2)
            redis.kill()
            commit(variables, tmp_path, [marked("later")])
            wait_with_circuits_closed(ledger, submitted=3, failed=3, ambiguous=2)
            eventually(lambda: "connection error" in worker.log, "the loss of Redis is logged")
            assert worker.stop() == 0

    assert sink.logins > 1
    assert all(MARK.encode() in content for content in sink.contents)
    assert len(worker.events("attempt finished")) >= len(tempers) + 4
    assert traces(worker.log) == []
    assert traces(tap.hints) == []


def test_answers_carried_by_redis_hold_no_trace(  # noqa: PLR0917 - fixtures
    ledger: Ledger,
    durable_postgres: PostgresServer,
    redis: RedisServer,
    sink_log: SinkLog,
    templates: Path,
    tmp_path: Path,
) -> None:
    with (
        served(QuotingSink(sink_log, closed=("dot",))) as sink,
        tapped(redis) as (redis_url, tap),
    ):
        sink.logins = 1
        variables = marked_settings(ledger, sink.port, redis_url, templates)
        variables["MAILER_SHUTDOWN_SECONDS"] = "4"
        commit(variables, tmp_path, [marked("one"), marked("two")])
        with Worker(variables, tmp_path) as worker:
            sink.gates["dot"].wait_for(2)
            with power_cut(durable_postgres):
                sink.gates["dot"].open()
                eventually(lambda: "Retrying message" in worker.log, "an answer cannot be written")
                assert worker.stop() == 0
        with Worker(variables, tmp_path) as successor:
            ledger.wait_states(submitted=2)

    assert tap.has_heard("record")
    assert traces(tap.hints) == []
    logged = worker.log + successor.log
    assert traces(logged) == []
    assert [token for (token,) in ledger.ask(LEASE_TOKENS) if token in logged] == []


def test_errors_that_an_application_meets_hold_no_trace(
    ledger: Ledger, redis: RedisServer, templates: Path, tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ERRORS],
        env=process_environment(marked_settings(ledger, 25, redis.url, templates)),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.split()[0] for line in done.stdout.splitlines()] == [
        "DedupConflict",
        *["InvalidEmail"] * 7,
    ]
    assert traces(done.stdout) == []


def test_settings_that_cannot_work_are_told_without_a_trace(tmp_path: Path) -> None:
    with Worker(BROKEN_SETTINGS, tmp_path) as worker:
        assert worker.wait_exit() != 0
        assert all(variable in worker.log for variable in BROKEN_SETTINGS)
        assert traces(worker.log) == []
