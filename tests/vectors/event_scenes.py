"""What the event vectors begin with: attempts at known stages, and a door to post to."""

import base64
import http.client
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from mailer.addresses import address_key
from mailer.feed import Channel, NotNow, Unacceptable
from mailer.ingest import Answer, Ingest
from mailer.storing import Storage
from mailer.tables import Attempt, Outbox, Recipient
from mailer.web.app import application
from mailer.web.server import Server, listen
from mailer.wiring_events import WebParts
from providers.sns import SnsVerifier
from providers.sns_certificates import Certificates

Case = Mapping[str, Any]

STARTED = datetime(2026, 3, 10, 11, 59, tzinfo=UTC)
FAR = datetime(2100, 1, 1, tzinfo=UTC)


def write_attempts(attempts: list[Case]) -> None:
    """Write the rows of the vectors' attempts; those of one `message` share a row."""
    rows: dict[str, int] = {}
    for each in attempts:
        name = each.get("message", each["id"])
        if name not in rows:
            rows[name] = _write_row(name, each["recipients"])
        _write_attempt(rows[name], each)


def _write_row(name: str, recipients: list[str]) -> int:
    row = Outbox.create(
        dedup_key=name,
        # The vectors know their attempts by provider id and tag alone.
        message_id=f"<{name}@no.vector.example>",
        fingerprint=name,
        subject="Your receipt",
        text="Hello",
        to=recipients,
    )
    for each in recipients:
        Recipient.create(outbox=row, address=each, address_key=address_key(each), role="to")
    return int(row.id)


def _write_attempt(row_id: int, given: Case) -> None:
    outcome = None if given["state"] == "sending" else given["state"]
    recipients = list(Recipient.select().where(Recipient.outbox == row_id))
    number = Attempt.select().where(Attempt.outbox == row_id).count() + 1
    doubtful = [each.id for each in recipients] if outcome == "ambiguous" else None
    ended = {
        "outcome": outcome,
        "scope": "message",
        "stage": "response",
        "rule": "of the vectors",
        "finished_at": STARTED,
        "doubtful": doubtful,
    }
    Attempt.create(
        outbox=row_id,
        number=number,
        provider="ses:eu-west-1",
        lease_token="token",
        request_tag=given["tag"],
        provider_id=given["provider_id"],
        state="finished" if outcome else "started",
        started_at=STARTED,
        **(ended if outcome else {}),
    )
    state = {"accepted": "submitted", "ambiguous": "ambiguous", None: "sending"}[outcome]
    Outbox.update(
        state=state,
        last_number=number,
        lease_token=None if outcome else "token",
        lease_expires_at=None if outcome else FAR,
        finished_at=STARTED if state == "submitted" else None,
    ).where(Outbox.id == row_id).execute()
    Recipient.update(state=outcome or "due").where(Recipient.outbox == row_id).execute()


class CertificateHost:
    """Serves the vectors' certificates, and fails where a step says so."""

    def __init__(self, certificates: Mapping[str, str]) -> None:
        self._certificates = certificates
        self.failing: Mapping[str, str] = {}
        self.asked: list[str] = []

    def __call__(self, url: str) -> bytes:
        self.asked.append(url)
        if url in self.failing or url not in self._certificates:
            raise TimeoutError
        return self._certificates[url].encode()


class Confirmations:
    """Notes which subscriptions were to be confirmed."""

    def __init__(self) -> None:
        self.confirmed: list[tuple[str, str]] = []

    async def confirm(self, topic_arn: str, token: str) -> None:
        """Note one."""
        self.confirmed.append((topic_arn, token))


class Scene:
    """One case's way in: its configuration, its certificates, its clock."""

    def __init__(self, meta: Case, config: Case) -> None:
        self.host = CertificateHost(meta["certs"])
        self.confirmations = Confirmations()
        clock = datetime.fromisoformat(meta["clock"].split()[0])
        version = config.get("require_signature_version")
        verifier = SnsVerifier(
            config["allowed_topics"],
            Certificates(self.host),
            versions=frozenset({str(version)} if version else {"1", "2"}),
            max_age_seconds=config.get("max_age_seconds"),
            clock=lambda: clock,
        )
        self.ingest = Ingest(verifier, Storage(lambda: None), self.confirmations)


class Entrance:
    """The door's ingest, exchanged from case to case while the server stays."""

    scene: Scene
    answers: Mapping[tuple[int, str], int] = {}

    async def take(self, body: bytes, channel: Channel) -> Answer:
        """Hand over to the present case."""
        return await self.scene.ingest.take(body, channel)

    def decline(self, reason: Unacceptable | NotNow, channel: Channel) -> Answer:
        """Hand over to the present case."""
        return self.scene.ingest.decline(reason, channel)


@contextmanager
def door() -> Iterator[tuple[Entrance, int]]:
    """Run the real web application on a free port for the block."""
    entrance, stop = Entrance(), threading.Event()
    listener = listen("127.0.0.1", 0)
    server = Server(application(WebParts(entrance, has_topics=True)), stop)  # type: ignore[arg-type]
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    try:
        yield entrance, listener.getsockname()[1]
    finally:
        stop.set()
        thread.join()
        listener.close()


def post(port: int, body: bytes, headers: Mapping[str, str]) -> int:
    """Post one body as SNS does; return the status."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        content = {"Content-Type": "text/plain; charset=UTF-8", **headers}
        connection.request("POST", "/events/sns", body=body, headers=content)
        return connection.getresponse().status
    except BrokenPipeError:
        # The door answered and hung up before the whole of a body that is too large was sent.
        return connection.getresponse().status
    finally:
        connection.close()


def body_of(given: Case) -> bytes:
    """The bytes that a case, or a step of one, posts."""
    if "body_base64" in given:
        return base64.b64decode(given["body_base64"])
    if "body_spec" in given:
        spec = given["body_spec"]
        return str(spec["prefix"] + spec["unit"] * spec["count"] + spec["suffix"]).encode()
    sns = given["sns"]
    return (sns if isinstance(sns, str) else json.dumps(sns)).encode("utf-8", "surrogatepass")
