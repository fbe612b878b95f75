"""Short commands that run beside a contestant's workers."""

import subprocess
from collections.abc import Mapping, Sequence

from benchmarks.crew import Failed

_LAST_WORDS_CHARS = 2_000


def run(command: Sequence[str], environ: Mapping[str, str]) -> None:
    """Run to the end; raises Failed with what was said if that was not a good one."""
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Failed(f"{command[-1]}: {done.stderr[-_LAST_WORDS_CHARS:].strip()}")
