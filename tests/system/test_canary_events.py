"""A marked message on its way back: the mark is in no log line, no hint and no answer of the door.

The mark stands in all that an event tells, in tokens and credentials, and in all that a stranger
posts.
"""

import base64
import http.client
import json
import socket
from contextlib import closing
from pathlib import Path

from mailer.prove.kit.ledger import Ledger
from mailer.prove.kit.servers import PostgresServer, RedisServer
from tests.sns_kit import CertificateHost, body, signed
from tests.system.conftest import power_cut
from tests.system.scene import scene
from tests.system.test_canary import MARK, marked, tapped, traces

BASIC = base64.b64encode(f"{MARK}:{MARK}-password".encode()).decode()
UNREADABLE = (
    f"This is no JSON, {MARK}",
    {"eventType": MARK, "mail": {"messageId": MARK, "destination": [f"{MARK}@example.com"]}},
    {"eventType": "Bounce", "mail": {"messageId": MARK}, "bounce": MARK},
    {"eventType": "Delivery", "mail": MARK},
    {
        "eventType": "Complaint",
        "mail": {"messageId": MARK, "timestamp": MARK, "tags": {"mailer-attempt": [MARK]}},
        "complaint": {
            "timestamp": MARK,
            "complainedRecipients": [{"emailAddress": f"{MARK}\0@example.com"}],
        },
    },
)
"""What a genuine event may say, and nobody can make sense of."""
PATHS = ("/livez", "/readyz", "/metrics", f"/{MARK}", f"/events/sns/{MARK}")


def ask(port: int, method: str, path: str, content: bytes = b"", **headers: str) -> tuple[int, str]:
    """Return the status of an answer, and all that it says."""
    with closing(http.client.HTTPConnection("127.0.0.1", port)) as connection:
        named = {"Authorization": f"Basic {BASIC}", "User-Agent": MARK, "X-Secret": MARK}
        raw = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, f"{path}?token={MARK}", content, {**named, **raw})
        answer = connection.getresponse()
        told = answer.read().decode()
        return answer.status, f"{answer.reason}\n{answer.headers}\n{told}"


def post(port: int, content: bytes, **headers: str) -> tuple[int, str]:
    return ask(port, "POST", "/events/sns", content, **headers)


def genuine_answers(port: int) -> list[tuple[int, str]]:
    """Post what is signed, whatever it says; the last one brings a token that is none."""
    said = [each if isinstance(each, str) else json.dumps(each) for each in UNREADABLE]
    confirmation = signed(MARK, kind="SubscriptionConfirmation", Token=f"{MARK}-token")
    return [post(port, body(signed(each, subject=MARK))) for each in said] + [
        post(port, body(signed(MARK, kind="UnsubscribeConfirmation", Token=f"{MARK}-token"))),
        post(port, body(confirmation)),
    ]


def strange_answers(port: int) -> list[tuple[int, str]]:
    """Post what nobody signed."""
    genuine = signed(MARK)
    url = f"https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-{MARK}.pem"
    return [
        post(port, body(genuine), x_amz_sns_rawdelivery="true"),
        post(port, body({**genuine, "TopicArn": f"{genuine['TopicArn']}-{MARK}"})),
        post(port, body({**genuine, "Message": f"{MARK} and more"})),
        post(port, body({**genuine, "SigningCertURL": url})),
        post(port, body({**genuine, "SigningCertURL": url.replace(MARK, "f" * 32)})),
        post(port, body({**genuine, "Type": MARK})),
        post(port, f'{{"{MARK}'.encode()),
    ]


def not_http(port: int) -> str:
    """Return what is answered to a line that is no request."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(f"{MARK} /{MARK} {MARK}\r\n\r\n".encode())
        return connection.recv(10_000).decode()


def test_the_way_back_leaves_no_trace(
    ledger: Ledger, durable_postgres: PostgresServer, redis: RedisServer, tmp_path: Path
) -> None:
    words = ["bounce", "complaint", "ooto", "suppressionlist", "delay", "close"]
    more = {
        "DATABASE_URL": ledger.url.replace("//mailer@", f"//mailer:{MARK}-database@"),
        "MAILER_FROM": f"{MARK} <{MARK}@example.com>",
        "MAILER_SECRET": f"{MARK}-secret-of-the-tests",
        "AWS_ACCESS_KEY_ID": f"AKID{MARK.upper()}",
        "AWS_SECRET_ACCESS_KEY": f"{MARK}/secret",
    }
    with (
        tapped(redis) as (redis_url, tap),
        scene(ledger, redis_url, tmp_path, query=f"?token={MARK}", **more) as it,
    ):
        it.commit(*[marked(word) for word in words])
        ledger.wait_states(submitted=len(words))
        CertificateHost().write(tmp_path / "certificates")
        genuine, strange = genuine_answers(it.port), strange_answers(it.port)
        states = it.wait_interpreted()
        it.commit({**marked("bounce"), "dedup_key": f"{MARK}:again"})
        ledger.wait_states(submitted=len(words), suppressed=1)
        others = [ask(it.port, "GET", path) for path in PATHS]
        with power_cut(durable_postgres):
            put_off = post(it.port, body(signed(MARK)))
        garbled = not_http(it.port)

    assert [status for status, _ in genuine] == [*[200] * (len(UNREADABLE) + 1), 503]
    assert [status for status, _ in strange] == [400, 403, 403, 403, 503, 400, 400]
    assert put_off[0] == 503
    assert states["processed"] > 2 * len(words)
    assert states["unparsed"] >= 1
    assert tap.has_heard("interpret")
    assert any(MARK in text for (text,) in ledger.ask("SELECT text FROM email_fact") if text)
    told = [text for _, text in (*genuine, *strange, *others, put_off)]
    assert traces("\n".join([*told, garbled])) == []
    assert traces(it.web.log) == []
    assert traces(it.worker.log) == []
    assert traces(tap.hints) == []
