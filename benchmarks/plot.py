"""The contest as a picture: rows a second by contestant and class, with the marks as lines.

`python -m benchmarks.plot docs/performance-data.json docs/performance.svg`
"""

import json
import sys
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from benchmarks.contest import BARE, DURABLE_PEERS, OF_BARE, OF_BEST_PEER, OURS

_WIDTH, _LABEL, _VALUE = 760, 150, 90
_BAR, _GAP, _TITLE = 22, 8, 46
_OURS, _PEER, _LIMIT, _MARK = "#1f6feb", "#8b949e", "#d0d7de", "#cf222e"


def draw(data: Mapping[str, Any]) -> str:
    """Draw what a run has written down as one SVG document."""
    parts: list[str] = []
    top = 0
    for name, contestants in data["contest"]["classes"].items():
        rates = {
            each: figures["median"]["rows_per_second"] for each, figures in contestants.items()
        }
        if rates:
            parts += _panel(name, rates, top)
            top += _TITLE + len(rates) * (_BAR + _GAP) + 2 * _GAP
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {top}" width="{_WIDTH}"'
            f' height="{top}" font-family="sans-serif" font-size="13" role="img">',
            "<title>Rows a second, all queued to all done</title>",
            f'<rect width="{_WIDTH}" height="{top}" fill="#ffffff"/>',
            *parts,
            "</svg>\n",
        ]
    )


def _panel(name: str, rates: Mapping[str, float], top: int) -> list[str]:
    lines = mark_lines(name, rates)
    scale = (_WIDTH - _LABEL - _VALUE) / max([*rates.values(), *lines.values()])
    height = len(rates) * (_BAR + _GAP)
    drawn = [_text(_GAP, top + 20, f"{name}: rows/s", weight="bold")]
    for place, each in enumerate(sorted(rates, key=lambda each: -rates[each])):
        y = top + _TITLE + place * (_BAR + _GAP)
        drawn += _bar(each, rates[each], y, scale)
    for place, (label, value) in enumerate(lines.items()):
        x = _LABEL + value * scale
        drawn.append(
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top + _TITLE - 6}"'
            f' y2="{top + _TITLE + height}" stroke="{_MARK}" stroke-dasharray="4 3"/>'
        )
        # Two marks may stand close together: their labels are on lines of their own.
        anchor, aside = ("end", -3) if x > _WIDTH / 2 else ("start", 3)
        level = top + 22 + 14 * place
        drawn.append(_text(x + aside, level, label, anchor=anchor, fill=_MARK, size=11))
    return drawn


def mark_lines(name: str, rates: Mapping[str, float]) -> dict[str, float]:
    """The marks of one class as rows a second."""
    lines = {}
    peers = [rate for each, rate in rates.items() if each in DURABLE_PEERS]
    if peers and name in OF_BEST_PEER:
        lines[f"{OF_BEST_PEER[name]} of the best durable peer"] = OF_BEST_PEER[name] * max(peers)
    if BARE in rates and name in OF_BARE:
        lines[f"{OF_BARE[name]} of bare aiosmtplib"] = OF_BARE[name] * rates[BARE]
    return lines


def _bar(name: str, rate: float, y: int, scale: float) -> list[str]:
    fill = {OURS: _OURS, BARE: _LIMIT}.get(name, _PEER)
    middle = y + _BAR - 6
    return [
        _text(_LABEL - 8, middle, name, anchor="end"),
        f'<rect x="{_LABEL}" y="{y}" width="{rate * scale:.1f}" height="{_BAR}" fill="{fill}"/>',
        _text(_LABEL + rate * scale + 6, middle, f"{rate:,.0f}"),
    ]


def _text(
    x: float,
    y: float,
    content: str,
    *,
    anchor: str = "start",
    weight: str = "normal",
    fill: str = "#1f2328",
    size: int = 13,
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}"'
        f' font-size="{size}" fill="{fill}">{escape(content)}</text>'
    )


def main() -> None:
    """Draw one file from the other."""
    source, target = map(Path, sys.argv[1:3])
    target.write_text(draw(json.loads(source.read_text())))


if __name__ == "__main__":
    main()
