"""The product's worker with a part swapped or timed for a measurement, by the environment:

`BENCHMARK_COMPOSE=ready` leaves composing out, `BENCHMARK_CLAIMS=FILE` appends for each claim how
many rows it took and its milliseconds. Nothing of this exists in the product.
"""

import datetime as dt
import os
import sys
import time
from collections.abc import Callable
from typing import Any
from unittest import mock

from actors import worker
from mailer import claims, loading
from mailer.claims import Claimed
from mailer.email import Email

_SWITCH_SECONDS = 0.000_1


def broker() -> None:
    """Swap what the environment asks for, then do what `actors.worker:broker` does."""
    if os.environ.get("BENCHMARK_COMPOSE") == "ready":
        mock.patch.object(loading, "compose", _ready).start()
    if path := os.environ.get("BENCHMARK_CLAIMS"):
        # By default a thread waits up to 5 ms for the interpreter, many times the claim itself.
        sys.setswitchinterval(_SWITCH_SECONDS)
        mock.patch.object(claims, "claim_due", _timed(claims.claim_due, path)).start()
    worker.broker()


def _ready(
    email: Email, *, message_id: str, date: dt.datetime, outbox_id: int, attempt: str
) -> bytes:
    head = (
        f"Message-ID: {message_id}\r\nX-Outbox-Id: {outbox_id}\r\nX-Outbox-Attempt: {attempt}\r\n"
    )
    return (head + (email.text or "")).encode()


def _timed(claim: Callable[..., list[Claimed]], path: str) -> Callable[..., list[Claimed]]:
    def claim_due(*given: Any, **named: Any) -> list[Claimed]:
        began = time.perf_counter()
        taken = claim(*given, **named)
        took_ms = (time.perf_counter() - began) * 1e3
        with open(path, "a", encoding="ascii") as file:
            file.write(f"{len(taken)} {took_ms:.4f}\n")
        return taken

    return claim_due
