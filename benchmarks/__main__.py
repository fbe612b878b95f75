"""All measurements, one after the other on this machine, into one file.

    contest   rows a second beside peers, composed and raw, with CPU by part and memory
    latency   commit to the sink on an idle system, with hints and without
    claims    the claim beside a long history, and while a transaction stays open
    urgent    urgent rows beside a bulk stream
    enqueue   one row in the caller's transaction, beside a bare insert
    compose   one message, beside the standard library
    ses       SES calls, beside bare boto3
    events    signed events through the web process, and with its database killed
    memory    the worker's, over a long run

Each also runs alone: `python -m benchmarks.contest --help`. `--quick` shows in a few minutes that
everything works here; its figures mean nothing.
"""

import argparse
import datetime as dt
import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks import plot
from mailer.prove.kit.binaries import find_postgres

MEASUREMENTS: dict[str, tuple[str, ...]] = {
    "contest": ("--rows", "1000", "--rounds", "1"),
    "latency": ("--sends", "10"),
    "claims": ("--rows", "20000", "--held-rows", "2000"),
    "urgent": ("--urgent", "300", "--bulk", "2000", "--rounds", "1"),
    "enqueue": ("--times", "100", "--rounds", "1"),
    "compose": ("--times", "300"),
    "ses": ("--calls", "200", "--rounds", "1"),
    "events": ("--events", "500"),
    "memory": ("--rows", "2000"),
}
"""By name, with what makes each quick."""

DATA, PICTURE = Path("docs/performance-data.json"), Path("docs/performance.svg")


def main() -> None:
    """Run those that are asked for; keep what the file holds of the others."""
    options = _options()
    found: dict[str, Any] = json.loads(options.out.read_text()) if options.out.exists() else {}
    failed = []
    for name in options.measurements:
        print(f"\n== {name}", flush=True)
        measured = _measure(name, quick=options.quick)
        if measured is None:
            failed.append(name)
        else:
            found[name] = {"at": f"{dt.datetime.now(dt.UTC):%Y-%m-%d}", **measured}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps({**found, "machine": _machine()}, indent=1) + "\n")
    if "contest" in found:
        options.out.with_name(PICTURE.name).write_text(plot.draw(found))
    missed = [each["what"] for name in MEASUREMENTS for each in found.get(name, {}).get("marks", [])
              if not each["met"]]  # fmt: skip
    print(f"\n{options.out}: {len(missed)} marks missed; failed to measure: {failed or 'none'}")
    sys.exit(1 if failed else 0)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("measurements", nargs="*", default=list(MEASUREMENTS), metavar="NAME")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=Path, default=DATA, metavar="FILE")
    options = parser.parse_args()
    if unknown := set(options.measurements) - set(MEASUREMENTS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    return options


def _measure(name: str, *, quick: bool) -> dict[str, Any] | None:
    """Run one in a process of its own, so that none inherits another's memory."""
    with tempfile.TemporaryDirectory() as folder:
        figures = Path(folder) / "figures.json"
        sizes = MEASUREMENTS[name] if quick else ()
        command = [sys.executable, "-m", f"benchmarks.{name}", *sizes, "--json", str(figures)]
        done = subprocess.run(command, check=False)
        if done.returncode != 0:
            return None
        measured: dict[str, Any] = json.loads(figures.read_text())
        return measured


def _machine() -> dict[str, Any]:
    version = subprocess.run(
        [find_postgres() / "postgres", "--version"], capture_output=True, text=True, check=True
    )
    return {
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "postgresql": version.stdout.split()[-1 if ")" not in version.stdout else 2],
        "system": f"{platform.system()} {platform.machine()}",
    }


if __name__ == "__main__":
    main()
