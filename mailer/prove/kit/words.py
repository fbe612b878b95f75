"""What a campaign and a soak came to, in lines for a person and as one document for a program."""

from collections.abc import Iterator
from dataclasses import asdict
from itertools import pairwise
from typing import Any

from mailer.prove.kit.campaign import Report
from mailer.prove.kit.play import Result
from mailer.prove.kit.soak import Soak

_COUNTS = (
    ("intents committed", "committed"),
    ("accepted by a provider", "accepted"),
    ("submitted", "submitted"),
    ("failed", "failed"),
    ("ambiguous", "ambiguous"),
    ("duplicates", "duplicates"),
    ("duplicates that the application allowed", "chosen"),
    ("lost", "lost"),
)


def line(result: Result) -> str:
    """One scenario in one line."""
    verdict = "BROKEN" if result.breaks else "holds"
    faults = ", ".join(
        fault if met else f"{fault} (at no special moment)"
        for fault, met in zip(result.faults, result.met, strict=False)
    )
    return (
        f"seed {result.seed} {verdict}: {result.counts.committed} messages through"
        f" {_through(result.through)}; {faults}; at rest after {result.recovery_seconds:.1f} s"
    )


def _through(name: str) -> str:
    return "SMTP and SES" if name == "both" else name.upper()


def lines(report: Report) -> Iterator[str]:
    """The whole report."""
    totals = report.totals
    yield f"{len(report.results)} scenarios"
    for words, name in _COUNTS:
        yield f"  {words}: {getattr(totals, name):,}"
    yield f"  worst recovery: {report.worst_recovery_seconds:.1f} s"
    for each in report.skipped:
        yield f"  not tried here: {each}"
    if report.broken is None:
        yield "every invariant held"
        return
    yield f"seed {report.broken.seed} breaks:"
    for found in report.broken.breaks:
        yield f"  {found.invariant}: {found.what}"
    yield f"it takes: {', '.join(report.needs) or 'no fault at all'}"
    yield f"again: mailer prove --seed {report.broken.seed}"


def document(report: Report) -> dict[str, Any]:
    """The whole report, for a program."""
    broken = report.broken
    return {
        "ok": broken is None,
        "scenarios": len(report.results),
        **asdict(report.totals),
        "worst_recovery_seconds": round(report.worst_recovery_seconds, 3),
        "not_tried": list(report.skipped),
        "broken_seed": None if broken is None else broken.seed,
        "breaks": [] if broken is None else [asdict(each) for each in broken.breaks],
        "needs": list(report.needs),
        "results": [asdict(each) for each in report.results],
    }


def soak_lines(soak: Soak) -> Iterator[str]:
    """A soak."""
    rate = soak.messages / soak.seconds if soak.seconds else 0.0
    yield f"{soak.messages:,} messages in {soak.seconds:.0f} s, {rate:,.0f} a second"
    yield f"  submitted: {soak.submitted:,}; taken: {soak.accepted:,}; twice: {soak.duplicates:,}"
    for words, name in (
        ("memory of all worker processes, MB", "megabytes"),
        ("file descriptors", "descriptors"),
        ("connections", "connections"),
    ):
        values = [getattr(each, name) for each in soak.samples]
        quarter = max(1, len(values) // 4)
        told = " ".join(
            f"{max(values[at : at + quarter]):.0f}" for at in range(0, len(values), quarter)
        )
        yield f"  {words}, by quarters: {told}"
    for each in soak.breaks:
        yield f"BROKEN: {each}"
    if not soak.breaks:
        yield "memory stayed flat, and nothing was left open"


def _quarters(soak: Soak, name: str) -> Iterator[str]:
    values = [getattr(each, name) for each in soak.samples]
    edges = [len(values) * part // 4 for part in range(5)]
    for begin, end in pairwise(edges):
        if begin < end:
            yield f"{max(values[begin:end]):.0f}"
