"""What every measurement ends with: its marks, its lines, and its figures as JSON."""

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_WHOLE_FROM = 100
"""Figures from here on are written without a fraction."""


@dataclass(frozen=True)
class Mark:
    """What a figure has to reach: at least, or at most, the limit."""

    what: str
    reached: float
    limit: float
    unit: str = ""
    at_least: bool = False

    @property
    def is_met(self) -> bool:
        """Whether it does."""
        return self.reached >= self.limit if self.at_least else self.reached <= self.limit

    def line(self) -> str:
        """One line for a person."""
        unit = f" {self.unit}" if self.unit else ""
        sign = "≥" if self.at_least else "≤"
        verdict = "met" if self.is_met else "MISSED"
        return (
            f"{verdict:6} {self.what}: {_figure(self.reached)}{unit} (mark: {sign} {self.limit:g})"
        )

    def as_json(self) -> dict[str, Any]:
        """The same for a program."""
        return {
            "what": self.what,
            "reached": self.reached,
            "limit": self.limit,
            "unit": self.unit,
            "at_least": self.at_least,
            "met": self.is_met,
        }


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= _WHOLE_FROM else f"{value:.3g}"


def parser(about: str | None) -> argparse.ArgumentParser:
    """A parser with the option that all measurements have."""
    made = argparse.ArgumentParser(
        description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    return made


def close(
    options: argparse.Namespace,
    figures: Mapping[str, Any],
    lines: Sequence[str],
    marks: Sequence[Mark],
) -> None:
    """Print lines and marks; write everything down where `--json` says."""
    print("\n".join([*lines, *(each.line() for each in marks)]), flush=True)
    if options.json is not None:
        asked = {k: v for k, v in vars(options).items() if k != "json"}
        written = {"options": asked, **figures, "marks": [each.as_json() for each in marks]}
        options.json.write_text(json.dumps(written, indent=2) + "\n")


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns as wide as they must be; the first to the left, the others to the right."""
    widths = [max(len(each) for each in column) for column in zip(head, *rows, strict=True)]
    return [
        "  ".join(
            each.ljust(width) if place == 0 else each.rjust(width)
            for place, (each, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in (head, *rows)
    ]


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of all does not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * round(share * 1000) // 1000) - 1)]
