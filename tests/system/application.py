"""An application: each line of its input is one transaction, committed or rolled back.

Run as `python -m tests.system.application` with the settings of an application.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import mailer
from tests.system.fleet import process_environment

Message = Mapping[str, Any]


class SecondThoughts(Exception):
    """The business change is not made after all."""


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
        [sys.executable, "-m", "tests.system.application"],
        env=process_environment(variables),
        cwd=folder,
        text=True,
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        process.stdin.write("".join(f"{line}\n" for line in lines))
        process.stdin.flush()
        until()
        _, said = process.communicate()
    assert (process.returncode, said) == (0, "")


def main() -> None:
    """Carry out the transactions of the input."""
    database = mailer.connect(os.environ["DATABASE_URL"])
    for line in sys.stdin:
        wanted = json.loads(line)
        with suppress(SecondThoughts), database.atomic():
            for message in wanted["messages"]:
                mailer.enqueue(**message)
            if not wanted["commits"]:
                raise SecondThoughts
    database.close()


if __name__ == "__main__":
    main()
