"""The capture provider: each message becomes an `.eml` file in a folder, for development."""

import asyncio
import json
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote, urlsplit

from mailer.outcome import CallResult, Outcome, Scope
from mailer.provider import Call, Finding, Limits, Provider
from providers import parameters


def problems(url: str) -> list[str]:
    """List all that is wrong with a `file:///folder` URL."""
    parts = urlsplit(url)
    found = []
    if parts.netloc:
        found.append("file: a host is given; write three slashes, file:///folder")
    elif len(parts.path) < len("/x"):
        found.append("file: no folder; write file:///folder with an absolute path")
    if parts.fragment:
        found.append("file: something follows the folder; remove it")
    found += parameters.unknown(parts.query, "file", ("rate",))
    found += parameters.repeated(parts.query, ("rate",))
    return found + parameters.rate_problems(parameters.read(parts.query))


def build(
    url: str, *, connections: int, local_hostname: str | None, sender: str | None = None
) -> Provider:
    """Make the provider of a `url` that has no problems; files need no connections or names."""
    del connections, local_hostname, sender
    parts = urlsplit(url)
    rate = parameters.rate(parameters.read(parts.query))
    return CaptureProvider(Path(unquote(parts.path)), rate)


class CaptureProvider:
    """Writes `<request tag>.eml` and, with the envelope, `<request tag>.json`.

    The commit point is the rename that makes the message appear; the envelope appears before it.
    """

    def __init__(self, folder: Path, rate: float | None = None) -> None:
        self._folder = folder
        self._rate = rate

    @property
    def name(self) -> str:
        """The scheme and the folder."""
        return f"file:{self._folder}"

    async def send(self, call: Call) -> CallResult:
        """Write the message; what stops it becomes a result, cancellation included."""
        if not call.recipients:
            return _ended(call, "capture-message", "no recipients", Outcome.PERMANENT)
        try:
            return await self._capture(call)
        except OSError as exc:
            return _ended(call, "capture-folder", self._explain(exc), scope=Scope.ACCOUNT)
        except BaseException as exc:  # noqa: BLE001 - the rename is synchronous, so it was not made
            return _ended(call, "capture-not-written", type(exc).__name__)

    async def limits(self) -> Limits:
        """The `rate` of the URL, to try out a shared rate without a provider."""
        return Limits(rate_per_second=self._rate)

    async def check(self) -> list[Finding]:
        """See whether the folder can be written to."""
        try:
            await asyncio.to_thread(_probe, self._folder)
        except OSError as exc:
            return [Finding("folder", ok=False, detail=self._explain(exc))]
        return [Finding("folder", ok=True, detail=f"{self._folder} can be written to")]

    async def close(self) -> None:
        """Nothing is held open."""

    async def _capture(self, call: Call) -> CallResult:
        message = self._folder / f"{call.request_tag}.eml"
        envelope = message.with_suffix(".json")
        writing = asyncio.get_running_loop().run_in_executor(None, _write_beside, message, call)
        try:
            content_draft, envelope_draft = await asyncio.shield(writing)
        except asyncio.CancelledError:
            writing.add_done_callback(_discard)
            raise
        try:
            if refusal := call.may_commit():
                return _ended(call, refusal.value, f"not handed over: {refusal.value}")
            envelope_draft.replace(envelope)
            content_draft.replace(message)
        finally:
            _remove(content_draft, envelope_draft)
        return _ended(
            call,
            "capture-accepted",
            "written",
            Outcome.ACCEPTED,
            Scope.MESSAGE,
            provider_id=message.name,
        )

    def _explain(self, exc: OSError) -> str:
        why = os.strerror(exc.errno) if exc.errno else type(exc).__name__
        return f"{why}: make {self._folder} a folder that this process can write to"


def _ended(
    call: Call,
    rule: str,
    reason: str,
    outcome: Outcome = Outcome.RETRYABLE,
    scope: Scope | None = None,
    *,
    provider_id: str | None = None,
) -> CallResult:
    usual = Scope.MESSAGE if outcome is Outcome.PERMANENT else Scope.CONNECTION
    return CallResult.alike(
        call.recipient_ids,
        outcome,
        scope or usual,
        stage="write",
        rule=rule,
        reason=reason,
        provider_id=provider_id,
    )


def _write_beside(message: Path, call: Call) -> tuple[Path, Path]:
    envelope = {
        "request_tag": call.request_tag,
        "outbox_id": call.outbox_id,
        "sender": call.sender,
        "recipients": [each.address for each in call.recipients],
    }
    content_draft = _draft(message.parent, call.content)
    try:
        octets = json.dumps(envelope, indent=2).encode("ascii") + b"\n"
        return content_draft, _draft(message.parent, octets)
    except BaseException:
        _remove(content_draft)
        raise


def _draft(folder: Path, octets: bytes) -> Path:
    handle, name = tempfile.mkstemp(prefix=".", suffix=".tmp", dir=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(octets)
    except BaseException:
        _remove(Path(name))
        raise
    return Path(name)


def _discard(writing: "asyncio.Future[tuple[Path, Path]]") -> None:
    if not writing.cancelled() and writing.exception() is None:
        _remove(*writing.result())


def _remove(*paths: Path) -> None:
    for path in paths:
        with suppress(OSError):
            path.unlink()


def _probe(folder: Path) -> None:
    _remove(_draft(folder, b""))
