"""What the application commits in a test, or rolls back: it ends when it has."""

import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mailer.prove.kit.application import Message
from mailer.prove.kit.fleet import process_environment


def welcome(key: str, *, to: str | None = None, **more: Any) -> Message:
    """Return the arguments of one `enqueue`."""
    return {
        "dedup_key": key,
        "to": to or f"{key}@example.com",
        "subject": "Welcome",
        "text": "It is good to have you here.\n",
        **more,
    }


def commit(variables: Mapping[str, str], folder: Path, *transactions: Sequence[Message]) -> None:
    """Have an application commit these messages, one transaction after the other."""
    carry_out(variables, folder, [(True, each) for each in transactions])


def carry_out(
    variables: Mapping[str, str],
    folder: Path,
    transactions: Sequence[tuple[bool, Sequence[Message]]],
    *,
    until: Callable[[], object] = lambda: None,
) -> None:
    """Have an application commit or roll back these transactions, one after the other.

    It ends once it has done so and `until` has returned.
    """
    lines = [json.dumps({"commits": commits, "messages": m}) for commits, m in transactions]
    with subprocess.Popen(
        [sys.executable, "-m", "mailer.prove.kit.application"],
        env=process_environment(variables),
        cwd=folder,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        process.stdin.write("".join(f"{line}\n" for line in lines))
        process.stdin.flush()
        until()
        _, said = process.communicate()
    assert (process.returncode, said) == (0, "")
