"""The web process: what it answers whom, and what nobody can make it do."""

import asyncio
import http.client
import json
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette

from mailer import database
from mailer.feed import MAX_BODY_BYTES, Channel, Envelope, EnvelopeType
from mailer.ingest import Ingest
from mailer.prove.kit.fleet import process_environment, procfile_command
from mailer.prove.kit.servers import Postgres
from mailer.prove.kit.waiting import until
from mailer.settings import load
from mailer.storing import Storage
from mailer.tables import Event
from mailer.web import health
from mailer.web.app import application
from mailer.web.health import Health, look_at_database
from mailer.web.hooks import EventsDoor
from mailer.web.server import Connection, Server, listen
from mailer.wiring_events import assemble_web
from tests import sns_kit
from tests.builders import bound_to, prepare
from tests.sns_kit import TOPIC, CertificateHost, signed

CANARY = "canary-Xk93"
ONE_OCTET = b"1\r\nx\r\n"


@dataclass
class Door:
    """A running door."""

    port: int

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: dict[str, str] | None = None,
    ) -> tuple[int, str]:
        """Return status and text of the answer to one request."""
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)) as client:
            client.request(method, path, body, headers or {})
            answer = client.getresponse()
            assert answer.getheader("server") is None
            return answer.status, answer.read().decode().strip()

    def post(self, body: bytes, **headers: str) -> tuple[int, str]:
        """Post as SNS does."""
        named = {name.replace("_", "-"): text for name, text in headers.items()}
        kind = {"Content-Type": "text/plain; charset=UTF-8"}
        return self.ask("POST", "/events/sns", body, kind | named)

    @contextmanager
    def connected(self) -> Iterator[socket.socket]:
        """Have a plain connection."""
        with socket.create_connection(("127.0.0.1", self.port), 20) as sock:
            yield sock

    def say(self, *octets: bytes) -> bytes:
        """Say something and return all that is answered until the door closes."""
        with self.connected() as sock:
            for each in octets:
                sock.sendall(each)
            return heard(sock)


def heard(sock: socket.socket) -> bytes:
    """All that comes until the other side closes, or breaks off."""
    received = b""
    try:
        while data := sock.recv(65536):
            received += data
    except ConnectionError:
        pass
    return received


def head(*lines: str) -> bytes:
    first = ("POST /events/sns HTTP/1.1", "Host: door", *lines)
    return "".join(f"{each}\r\n" for each in (*first, "")).encode()


@contextmanager
def serving(app: Starlette) -> Iterator[Door]:
    """Serve an application as `mailer web` does, on a thread of the tests."""
    stop = threading.Event()
    with closing(listen("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=Server(app, stop).run, args=([listener],))
        thread.start()
        try:
            yield Door(listener.getsockname()[1])
        finally:
            stop.set()
            thread.join(20)
    assert not thread.is_alive()


@dataclass
class Gate:
    """A verifier that believes everybody, once it is open."""

    open: threading.Event = field(default_factory=threading.Event)
    waiting: int = 0

    async def verify(self, body: bytes, channel: Channel) -> Envelope:
        del channel
        self.waiting += 1
        await asyncio.to_thread(self.open.wait, 20)
        return Envelope(EnvelopeType.NOTIFICATION, TOPIC, body.decode(), None, body)


class Nobody:
    """Confirms nothing."""

    async def confirm(self, topic_arn: str, token: str) -> None:
        raise AssertionError


def gated(gate: Gate, **options: Any) -> Starlette:
    """An application behind a gate, with limits of the test's own."""
    ingest = Ingest(gate, Storage(lambda: None), Nobody())
    door = EventsDoor(ingest, has_topics=True, **options)
    return Starlette(routes=[*door.routes(), *Health(look_at_database).routes()])


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the certificate of the tests' topic."""
    return CertificateHost().write(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def environ(certificates: Path) -> dict[str, str]:
    """The settings of a web process, but for its database."""
    return {
        "MAILER_SNS_TOPIC_ARNS": TOPIC,
        "MAILER_SNS_CERTIFICATES": str(certificates),
        "MAILER_LOG": "json",
        "PORT": "0",
    }


@contextmanager
def elsewhere() -> Iterator[None]:
    """Bind the outbox to something else in the block, and to what it was bound to afterwards."""
    earlier = database.proxy.obj
    try:
        yield
    finally:
        database.proxy.initialize(earlier)


@contextmanager
def assembled(environ: dict[str, str], url: str) -> Iterator[Door]:
    """Serve what the settings ask for, on a pool as the process has it."""
    with elsewhere():
        parts = assemble_web(load(environ | {"DATABASE_URL": url}, role="web"))
        pool: Any = database.bound()
        with serving(application(parts)) as door:
            yield door
        if hasattr(pool, "close_all"):
            pool.close_all()


@pytest.fixture(scope="module")
def running(
    environ: dict[str, str], postgres_server: Postgres, migrated_template: str
) -> Iterator[Door]:
    """A door on PostgreSQL, for the whole module; the outbox is bound to its pool."""
    url = postgres_server.create_database(migrated_template)
    with assembled(environ, url) as door:
        yield door
    postgres_server.drop_database(url)


@pytest.fixture
def door(running: Door) -> Door:
    """The door, with nothing stored."""
    with database.connected():
        Event.delete().execute()
    return running


def events() -> list[tuple[str, str]]:
    """What is stored."""
    with database.connected():
        return [(each.sns_message_id, bytes(each.body).decode()) for each in Event.select()]


def prepare_beside(url: str) -> None:
    """Migrate a database, whatever is bound."""
    with elsewhere():
        prepare(url)


def stored_in(url: str) -> int:
    """How many events a database has, whatever is bound."""
    with elsewhere(), bound_to(url):
        return Event.select().count()


class TestAnswers:
    def test_a_genuine_event_is_on_record_once(self, door: Door) -> None:
        envelope = signed(f"about {CANARY}")
        body = sns_kit.body(envelope)
        assert door.post(body) == (200, "stored")
        assert door.post(body) == (200, "stored")
        assert events() == [(envelope["MessageId"], body.decode())]

    def test_any_content_type_will_do(self, door: Door) -> None:
        for kind in ("application/json", "", "multipart/form-data"):
            assert door.post(sns_kit.body(signed()), Content_Type=kind) == (200, "stored")
        assert len(events()) == 3

    @pytest.mark.parametrize(
        ("body", "answer"),
        [
            (b"", (400, "sns-body-json")),
            (f'{{"Type": "{CANARY}"}}'.encode(), (400, "sns-field-Type")),
            (CANARY.encode() + b"\xff", (400, "sns-body-utf8")),
            (sns_kit.body(signed() | {"Message": CANARY}), (403, "sns-signature")),
            (sns_kit.body(signed(topic_arn=TOPIC + CANARY)), (403, "sns-topic")),
        ],
    )
    def test_what_is_not_genuine_is_answered_by_its_rule_alone(
        self, body: bytes, answer: tuple[int, str], door: Door, caplog: pytest.LogCaptureFixture
    ) -> None:
        assert door.post(body) == answer
        assert events() == []
        (told,) = [each for each in caplog.records if each.name == "mailer.events"]
        assert (vars(told)["rule"], vars(told)["channel"]) == (answer[1], "https")
        assert CANARY not in repr([vars(each) for each in caplog.records])

    def test_raw_delivery_is_refused_whatever_it_brings(self, door: Door) -> None:
        body = sns_kit.body(signed())
        assert door.post(body, x_amz_sns_rawdelivery="true") == (400, "sns-raw-delivery")
        assert door.post(body, x_amz_sns_rawdelivery="false") == (200, "stored")

    def test_without_topics_all_is_refused(self, environ: dict[str, str], tmp_path: Path) -> None:
        bare = environ | {"MAILER_SNS_TOPIC_ARNS": ""}
        with assembled(bare, f"sqlite:///{tmp_path / 'mailer.db'}") as door:
            assert door.post(sns_kit.body(signed())) == (403, "sns-no-topics")

    def test_other_paths_and_methods(self, door: Door) -> None:
        assert [door.ask("GET", path)[0] for path in ("/", "/events", "/events/sns/")] == [404] * 3
        assert [door.ask(each, "/events/sns")[0] for each in ("GET", "PUT", "HEAD")] == [405] * 3
        assert [door.ask("POST", path)[0] for path in ("/livez", "/readyz")] == [405] * 2


class TestBounds:
    def test_the_largest_body_is_read_and_one_octet_more_is_not(self, door: Door) -> None:
        assert door.post(b" " * MAX_BODY_BYTES) == (400, "sns-body-json")
        assert door.post(b" " * (MAX_BODY_BYTES + 1)) == (413, "sns-body-size")

    def test_a_body_in_chunks_is_no_way_round(self, door: Door) -> None:
        chunks = [b" " * 65536] * (MAX_BODY_BYTES // 65536)
        answers = [
            door.ask("POST", "/events/sns", iter(given)) for given in (chunks, [*chunks, b" "])
        ]
        assert answers == [(400, "sns-body-json"), (413, "sns-body-size")]

    def test_an_announced_size_is_believed(self, door: Door) -> None:
        answer = door.say(head("Content-Length: 99999999999"))
        assert answer.startswith(b"HTTP/1.1 413 ")
        assert b"connection: close" in answer

    def test_a_body_without_end_is_cut_off(self, door: Door) -> None:
        """However much is sent, the answer comes, and the connection ends."""
        chunk = b"10000\r\n" + b"x" * 65536 + b"\r\n"
        sent = 0
        with door.connected() as sock, suppress(ConnectionError):
            sock.sendall(head("Transfer-Encoding: chunked"))
            for sent in range(2000):  # noqa: B007
                sock.sendall(chunk)
        assert MAX_BODY_BYTES // 65536 < sent < 1999

    @pytest.mark.parametrize("length", ["-1", "1x", "1, 2"])
    def test_a_size_that_is_none_is_a_bad_request(self, length: str, door: Door) -> None:
        assert door.say(head(f"Content-Length: {length}")).startswith(b"HTTP/1.1 400 ")

    def test_a_client_that_leaves_in_the_middle_leaves_nothing(self, door: Door) -> None:
        with door.connected() as sock:
            sock.sendall(head("Content-Length: 100") + b"half")
        assert door.post(sns_kit.body(signed())) == (200, "stored")
        assert len(events()) == 1

    @pytest.mark.usefixtures("door")
    def test_a_body_that_takes_its_time_is_put_off(self) -> None:
        with serving(gated(Gate(), read_seconds=0.05)) as door:
            answer = door.say(head("Transfer-Encoding: chunked"), ONE_OCTET)
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert answer.endswith(b"\r\n\r\nbody-slow\n")

    @pytest.mark.parametrize(("earlier", "said"), [(0, b""), (0, b"POST /ev"), (1, b"POST /ev")])
    @pytest.mark.usefixtures("door")
    def test_a_head_that_takes_its_time_is_waited_for_no_longer(
        self, earlier: int, said: bytes, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(Connection, "request_seconds", 0.05)
        with serving(gated(Gate())) as door, door.connected() as sock:
            for _ in range(earlier):
                sock.sendall(b"GET /livez HTTP/1.1\r\nHost: door\r\n\r\n")
                assert sock.recv(65536).endswith(b"alive\n")
            sock.sendall(said)
            assert heard(sock) == b""

    @pytest.mark.usefixtures("door")
    def test_more_requests_at_once_than_there_is_room_for_are_put_off(self) -> None:
        gate = Gate()
        with serving(gated(gate, requests=2)) as door:
            answers: list[tuple[int, str]] = []
            callers = [
                threading.Thread(target=lambda n=name: answers.append(door.post(n)))
                for name in (b"one", b"two")
            ]
            for each in callers:
                each.start()
            until(lambda: gate.waiting == 2)
            assert door.post(b"three") == (503, "busy")
            assert door.ask("GET", "/livez") == (200, "alive")
            gate.open.set()
            for each in callers:
                each.join()
            assert answers == [(200, "stored")] * 2
            assert door.post(b"three") == (200, "stored")

    @pytest.mark.usefixtures("door")
    def test_more_octets_at_once_than_there_is_room_for_are_put_off(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("mailer.web.hooks._MOST_OCTETS", 10)
        gate = Gate()
        gate.open.set()
        with serving(gated(gate)) as door:
            for _ in range(2):
                assert door.post(b"x" * 11) == (503, "busy")
                assert door.post(b"x" * 10) == (200, "stored")


class TestHealth:
    def test_a_database_that_was_away_is_found_again(
        self,
        environ: dict[str, str],
        postgres_server: Postgres,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(health, "_KEPT_SECONDS", 0.0)
        url = postgres_server.create_database()
        with assembled(environ, url) as door:
            status, reason = door.ask("GET", "/readyz")
            assert (status, reason.split("; ")[1]) == (503, "run `mailer migrate`")
            prepare_beside(url)
            assert door.ask("GET", "/readyz") == (200, "ready")
            assert door.post(sns_kit.body(signed())) == (200, "stored")
            with postgres_server.refusing(url):
                assert door.ask("GET", "/readyz") == (503, health.AWAY_REASON)
                assert door.post(sns_kit.body(signed())) == (503, "database-away")
                assert door.ask("GET", "/livez") == (200, "alive")
            assert door.ask("GET", "/readyz") == (200, "ready")
            assert door.post(sns_kit.body(signed())) == (200, "stored")
        assert stored_in(url) == 2
        postgres_server.drop_database(url)

    def test_the_database_is_asked_once_a_second_at_most(self) -> None:
        now, looks = [0.0], []

        def look() -> str:
            looks.append(now[0])
            return "ready"

        with serving(Starlette(routes=Health(look, clock=lambda: now[0]).routes())) as door:
            for moment in (0.0, 0.5, 0.99, 1.0, 1.5, 2.5):
                now[0] = moment
                assert door.ask("GET", "/readyz") == (200, "ready")
        assert looks == [0.0, 1.0, 2.5]

    def test_a_database_that_does_not_answer_is_not_waited_for(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(health, "_PATIENCE_SECONDS", 0.05)
        answers = threading.Event()

        def look() -> str:
            answers.wait(20)
            return "ready"

        with serving(Starlette(routes=Health(look).routes())) as door:
            assert door.ask("GET", "/readyz") == (503, health.SLOW_REASON)
            answers.set()
            until(lambda: door.ask("GET", "/readyz") == (200, "ready"))


class TestProcess:
    @pytest.fixture
    def variables(self, environ: dict[str, str], tmp_path: Path) -> dict[str, str]:
        url = f"sqlite:///{tmp_path / 'mailer.db'}"
        prepare_beside(url)
        return process_environment(environ | {"DATABASE_URL": url})

    def test_a_stopping_process_answers_what_it_has_begun_and_its_log_names_no_client(
        self, variables: dict[str, str], tmp_path: Path
    ) -> None:
        body = sns_kit.body(signed(CANARY))
        with started(variables, tmp_path) as (process, port), Door(port).connected() as sock:
            Door(port).ask("GET", f"/{CANARY}?{CANARY}")
            Door(port).post(CANARY.encode())
            Door(port).say(f"{CANARY}\r\n\r\n".encode())
            sock.sendall(head(f"Content-Length: {len(body)}", "Expect: 100-continue"))
            assert b" 100 " in sock.recv(65536)
            sock.sendall(body[:-1])
            process.send_signal(signal.SIGTERM)
            until(lambda: not accepts(port))
            sock.sendall(body[-1:])
            assert heard(sock).startswith(b"HTTP/1.1 200 ")
            _, told = process.communicate(timeout=25)
        assert process.returncode == 0
        assert [json.loads(each)["event"] for each in told.splitlines()] == [
            "event refused",
            "web stopped",
        ]
        assert CANARY not in told
        assert "127.0.0.1" not in told
        assert stored_in(variables["DATABASE_URL"]) == 1

    def test_a_port_that_is_taken_is_told_in_one_sentence(
        self, variables: dict[str, str], tmp_path: Path
    ) -> None:
        with socket.create_server(("", 0)) as taken:
            port = taken.getsockname()[1]
            found = subprocess.run(
                ["/bin/sh", "-c", procfile_command("web")],
                env=variables | {"PORT": str(port)},
                cwd=tmp_path,
                capture_output=True,
                text=True,
                check=False,
            )
        assert (found.returncode, found.stdout) == (1, "")
        assert found.stderr.startswith(f"PORT: {port} cannot be listened on")


@contextmanager
def started(variables: dict[str, str], folder: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Start what the Procfile starts; gives the process and its port."""
    process = subprocess.Popen(
        ["/bin/sh", "-c", procfile_command("web")],
        env=variables,
        cwd=folder,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    try:
        yield process, json.loads(process.stderr.readline())["port"]
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 5).close()
    except OSError:
        return False
    return True
