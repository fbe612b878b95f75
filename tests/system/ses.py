"""A fake SES as its own process: its switches, its count of requests, and its append-only log."""

import http.client
import json
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from mailer.prove.kit.fleet import process_environment
from mailer.prove.kit.ledger import Ledger
from mailer.prove.kit.waiting import eventually
from tests.system.conftest import settings

SECRET = "wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY"

NO_LIMIT = {"max_send_rate": 20_000.0, "max_24_hour_send": -1.0}
"""Of the account's: a test waits for no rate but the one that throttle answers bring about."""

TOPIC = "arn:aws:sns:eu-west-1:111122223333:mail-events"

# The fake ends when the input of its shell is closed, which happens however the tests end.
_UNTIL_CLOSED = 'mailer fake-ses --port 0 "$@" & fake=$!; read -r _; kill $fake; wait $fake'


@dataclass(frozen=True, slots=True)
class Taken:
    """One line of the fake's log: one message that it accepted."""

    outbox_id: int
    tag: str


class FakeSes:
    """A fake that runs elsewhere."""

    def __init__(self, url: str, log: Path) -> None:
        self.url = url
        self._log = log

    @property
    def provider_url(self) -> str:
        """What MAILER_PROVIDERS has to say to send through this fake."""
        return f"ses://eu-west-1?endpoint_url={self.url}"

    def set_state(self, **switches: Any) -> None:
        """Switch the account."""
        self._ask("POST", "/admin/state", switches)

    def calls(self) -> int:
        """How many requests came to send a message, whatever became of them."""
        return int(self._ask("GET", "/admin/accepted")["calls"].get("SendEmail", 0))

    def posted(self) -> list[dict[str, Any]]:
        """Return each try to hand an event over, in order."""
        found: list[dict[str, Any]] = self._ask("GET", "/admin/events")["posted"]
        return found

    def wait_told(self) -> None:
        """Return once no event waits to be taken."""
        eventually(
            lambda: self._ask("GET", "/admin/events")["waiting"] == 0, "all events are taken"
        )

    def taken(self) -> list[Taken]:
        """Return all messages accepted so far, in order, by the log."""
        return [_taken(line) for line in self._log.read_text().splitlines()]

    def times(self) -> Counter[int]:
        """Return how often each message was accepted, by outbox id."""
        return Counter(each.outbox_id for each in self.taken())

    def wait_for(self, count: int) -> None:
        """Return once at least `count` messages have been accepted."""
        eventually(
            lambda: self._log.read_bytes().count(b"\n") >= count, f"{count} messages in the log"
        )

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        with closing(http.client.HTTPConnection(urlsplit(self.url).netloc)) as connection:
            headers = {"Content-Type": "application/json"}
            connection.request(method, path, json.dumps(body), headers)
            answer = connection.getresponse()
            told = json.loads(answer.read())
        assert answer.status == 200, told
        return told


def _taken(line: str) -> Taken:
    entry = json.loads(line)
    return Taken(int(entry["outbox_id"]), entry["tags"]["mailer-attempt"])


@contextmanager
def fake_ses(folder: Path, *options: str) -> Iterator[FakeSes]:
    """Run `mailer fake-ses`, with these options too, for the length of the block."""
    log = folder / "fake-ses.jsonl"
    with subprocess.Popen(
        ["/bin/sh", "-c", _UNTIL_CLOSED, "fake", "--log", str(log), *options],
        env=process_environment({}),
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            yield FakeSes(process.stdout.readline().split()[-1], log)
        finally:
            process.communicate()


@contextmanager
def telling_ses(folder: Path, port: int, query: str = "") -> Iterator[FakeSes]:
    """Run a fake that posts events to this port, once its subscription is confirmed."""
    certificates = folder / "certificates"
    certificates.mkdir()
    url = f"http://127.0.0.1:{port}/events/sns{query}"
    options = ("--events", url, "--topic", TOPIC, "--certificates", str(certificates), "--confirm")
    with fake_ses(folder, *options) as fake:
        yield fake


def web_settings(
    variables: Mapping[str, str], fake: FakeSes, folder: Path, port: int
) -> dict[str, str]:
    """Return a worker's settings with what the web process needs beside them."""
    return {
        **variables,
        "PORT": str(port),
        "MAILER_SNS_TOPIC_ARNS": TOPIC,
        "MAILER_SNS_CERTIFICATES": str(folder / "certificates"),
        "AWS_ENDPOINT_URL_SNS": fake.url,
    }


def ses_settings(ledger: Ledger, fake: FakeSes, **more: str) -> dict[str, str]:
    """Return the settings of a worker that sends through the fake.

    The SDK is told to repeat requests: that it does not is up to the product.
    """
    aws = {
        "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": "/nonexistent/config",
        "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent/credentials",
        "AWS_MAX_ATTEMPTS": "5",
        "AWS_RETRY_MODE": "legacy",
    }
    return settings(ledger, 0, MAILER_PROVIDERS=fake.provider_url, **{**aws, **more})
