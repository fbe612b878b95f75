"""What was accepted: a list, and a file that has each message before its answer goes out."""

import json
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Accepted:
    """A message that the fake took.

    `outbox_id` and `attempt` are its tags `mailer-outbox` and `mailer-attempt`, or else its headers
    X-Outbox-Id and X-Outbox-Attempt. `size` (octets) and `sha256` are of the raw content, and of
    the JSON for content that is not raw.
    """

    message_id: str
    at: datetime
    sender: str = field(repr=False)
    recipients: tuple[str, ...] = field(repr=False)
    tags: dict[str, str]
    outbox_id: str | None
    attempt: str | None
    configuration_set: str | None
    size: int
    sha256: str

    def as_json(self) -> dict[str, Any]:
        """Return what the log file and the admin door show."""
        return {
            **asdict(self),
            "at": self.at.isoformat(),
            "recipients": list(self.recipients),
        }


class Ledger:
    """Keeps what was accepted; with a path, in an append-only file of one JSON line a message."""

    def __init__(self, path: Path | None = None) -> None:
        # Unbuffered: a line is there even when this process is killed next.
        self._file = None if path is None else path.open("ab", buffering=0)
        self._entries: list[Accepted] = []

    @property
    def entries(self) -> tuple[Accepted, ...]:
        """All that was accepted since the start or the last `forget`, in order."""
        return tuple(self._entries)

    def add(self, entry: Accepted) -> None:
        """Write the message down; raises OSError, and keeps nothing, where the file cannot."""
        if self._file is not None:
            self._file.write(json.dumps(entry.as_json()).encode("ascii") + b"\n")
        self._entries.append(entry)

    def forget(self) -> None:
        """Empty the list; the file keeps all."""
        self._entries = []

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
