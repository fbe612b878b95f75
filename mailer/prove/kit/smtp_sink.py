"""An SMTP sink with a temper that logs what it accepted, as a thread or as a process.

Run as `python -m mailer.prove.kit.smtp_sink --log FILE [--port N]`; the first line that it prints
is its port.
"""

import argparse
import hashlib
import json
import os
import re
import signal
import sys
import threading
import time
from pathlib import Path

from mailer.prove.kit.smtp_server import DEFAULTS, RESET, STALL, Acts, Conversation, SmtpServer, say


class Sink:
    """Accepts mail and logs it, one JSON line a message, before it answers the dot.

    The local part of a recipient sets the temper: `greylist-` 451 the first time, `refuse-` 550,
    `drop-` logged as accepted and closed without an answer, `stall-` logged and never answered.
    """

    def __init__(self, log: Path) -> None:
        self._log = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._greylisted: set[str] = set()
        self._lock = threading.Lock()

    def does(self, step: str) -> bool:
        """Nothing beyond the defaults."""
        return False

    def respond(self, step: str, line: bytes, talk: Conversation) -> Acts:
        """Answer by temper."""
        if step == "rcpt":
            return self._rcpt(talk)
        if step == "dot":
            return self._dot(talk)
        return DEFAULTS[step]

    def close(self) -> None:
        """Close the log."""
        os.close(self._log)

    def _rcpt(self, talk: Conversation) -> Acts:
        address = talk.recipients[-1]
        if address.startswith("refuse-"):
            talk.recipients.pop()
            return say("550 5.1.1 no such user")
        with self._lock:
            is_first = address.startswith("greylist-") and address not in self._greylisted
            self._greylisted.add(address)
        if is_first:
            talk.recipients.pop()
            return say("451 4.7.1 greylisted, try again in 1 seconds")
        return DEFAULTS["rcpt"]

    def _dot(self, talk: Conversation) -> Acts:
        content = talk.record.contents.pop()
        talk.record.dots -= 1
        entry = {
            "time": time.time(),
            "outbox_id": _header(content, b"X-Outbox-Id"),
            "attempt": (_header(content, b"X-Outbox-Attempt") or "").partition(".")[0],
            "recipients": list(talk.recipients),
            "sha256": hashlib.sha256(content).hexdigest(),
        }
        os.write(self._log, json.dumps(entry).encode() + b"\n")
        tempers = {each.partition("-")[0] for each in talk.recipients}
        return RESET if "drop" in tempers else STALL if "stall" in tempers else DEFAULTS["dot"]


def _header(content: bytearray, name: bytes) -> str | None:
    found = re.search(
        rb"(?im)^" + name + rb": *([^\r\n]*)\r$", content.split(b"\r\n\r\n")[0] + b"\r"
    )
    return found[1].decode("ascii", "replace") if found else None


def main() -> None:
    """Run the sink until SIGTERM."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--port", type=int, default=0)
    given = parser.parse_args()
    sink = Sink(given.log)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with SmtpServer(lambda _: sink, port=given.port) as server:
        sys.stdout.write(f"{server.port}\n")
        sys.stdout.flush()
        signal.pause()


if __name__ == "__main__":
    main()
