"""Lines as Postfix and Exim write them, and what is read from them."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from mailer.evidence import Fate, Sighting, SightingKind
from providers.relay_log import QUEUE_LIMIT, read

ACCEPTED, REFUSED, NOTHING = SightingKind.ACCEPTED, SightingKind.REFUSED, SightingKind.NOTHING
OURS = "<k5x2ma@mail.example>"
RETURN_PATH = "bounces+t4g.9c1f@mail.example"
ANN, BOB = "ann@example.com", "bob@example.org"
BEFORE = datetime(2026, 3, 11, tzinfo=UTC)
NOON = datetime(2026, 3, 10, 12, tzinfo=UTC)
SHORT, LONG = "4F1A2B3C4D", "4bVnQz5x2Tz9vR"


def told(lines: Iterable[str], *, limit: int = QUEUE_LIMIT) -> list[Sighting]:
    """All that is told of these lines."""
    return list(read(lines, before=BEFORE, limit=limit))


def only(lines: Iterable[str]) -> Sighting:
    """The one thing that is told of these lines."""
    (found,) = told(lines)
    return found


def fates(seen: Sighting) -> list[tuple[str, Fate, str | None]]:
    """What became of each recipient, without the times."""
    return [(each.address, each.fate, each.code) for each in seen.recipients]


class Postfix:
    """Writes what Postfix logs of one message; `second` is counted from noon."""

    def __init__(
        self, queue_id: str = SHORT, *, instance: str = "postfix", second: int = 0
    ) -> None:
        self.queue_id, self.instance, self.second = queue_id, instance, second

    def line(self, service: str, text: str, *, after: int = 0, pid: int = 900) -> str:
        at = NOON + timedelta(seconds=self.second + after)
        return f"{at:%b %e %H:%M:%S} relay {self.instance}/{service}[{pid}]: {text}"

    def said(self, service: str, text: str, *, after: int = 0, pid: int = 900) -> str:
        return self.line(service, f"{self.queue_id}: {text}", after=after, pid=pid)

    def client(self, more: str = "") -> str:
        return self.said("submission/smtpd", f"client=app.example[192.0.2.1]{more}", pid=41)

    def named(self, message_id: str = OURS) -> str:
        return self.said("cleanup", f"message-id={message_id}")

    def active(self, sender: str = RETURN_PATH, *, after: int = 1) -> str:
        text = f"from=<{sender}>, size=1234, nrcpt=1 (queue active)"
        return self.said("qmgr", text, after=after)

    def to(
        self,
        address: str = ANN,
        status: str = "sent (250 2.0.0 Ok: queued as 7C9D1E2F3A)",
        *,
        dsn: str = "2.0.0",
        relay: str = "mx.example.com[192.0.2.5]:25",
        given: str = "",
        service: str = "smtp",
        after: int = 2,
    ) -> str:
        orig = f"orig_to=<{given}>, " if given else ""
        text = (
            f"to=<{address}>, {orig}relay={relay}, delay=1.5, delays=0.1/0/0.4/1, "
            f"dsn={dsn}, status={status}"
        )
        return self.said(service, text, after=after)

    def removed(self, *, after: int = 3) -> str:
        return self.said("qmgr", "removed", after=after)

    def cut(self, why: str = "lost connection after DATA (812 bytes)", *, pid: int = 41) -> str:
        return self.line("submission/smtpd", f"{why} from app.example[192.0.2.1]", pid=pid)

    def whole(self) -> list[str]:
        return [self.client(), self.named(), self.active(), self.to(), self.removed()]


class Exim:
    """Writes what Exim logs of one message."""

    def __init__(self, queue_id: str = "1tpxYZ-000000001Ab-0aBC") -> None:
        self.queue_id = queue_id

    def said(self, text: str, second: int = 0) -> str:
        return f"{NOON + timedelta(seconds=second):%Y-%m-%d %H:%M:%S} {self.queue_id} {text}"

    def arrived(self, message_id: str = OURS, sender: str = RETURN_PATH) -> str:
        return self.said(
            f"<= {sender} H=app.example (app) [192.0.2.1] P=esmtps "
            f"X=TLS1.3:TLS_AES_256_GCM_SHA384:256 CV=no A=plain:app S=1234 "
            f'id={message_id[1:-1]} T="Hi"'
        )

    def completed(self) -> str:
        return self.said("Completed", 3)
