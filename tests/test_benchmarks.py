"""The measurements' arithmetic and pictures; what they measure is not timed here."""

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from benchmarks import plot
from benchmarks.contest import BARE, OURS, Round, class_table, marks, median_rounds
from benchmarks.messages import content, ready
from benchmarks.report import Mark, percentile, table
from benchmarks.sink import Sink

PEER = "pgqueuer"


def rounds(*rates: float) -> list[Round]:
    return [Round(rate, 300.0, 100.0, 40.0, 0.0, 70.0) for rate in rates]


def medians() -> dict[str, dict[str, float]]:
    return median_rounds(
        {OURS: rounds(3900, 4000, 4400), BARE: rounds(10_000), PEER: rounds(2000, 2500, 2600)}
    )


def test_a_class_is_a_table_of_medians_and_ratios_the_fastest_first() -> None:
    _, first, second, third = (line.split() for line in class_table(medians()))
    assert first[:5] == ["bare", "aiosmtplib", "10,000", "2.50", "1.00"]
    assert second[:4] == ["mailer", "4,000", "1.00", "0.40"]
    assert third[:4] == ["pgqueuer", "2,500", "0.62", "0.25"]


def test_a_contestant_that_was_not_measured_leaves_its_ratio_open() -> None:
    alone = {PEER: medians()[PEER]}
    assert class_table(alone)[1].split()[:4] == ["pgqueuer", "2,500", "-", "-"]
    assert marks({"composed": alone}) == []


def test_the_marks_compare_with_the_best_durable_peer_and_with_the_limit() -> None:
    found = {each.what: each for each in marks({"composed": medians()})}
    beside_peer = found[f"composed: rows/s, of the best durable peer ({PEER})"]
    assert beside_peer.reached == pytest.approx(1.6)
    assert beside_peer.is_met
    beside_bare = found["composed: rows/s, of bare aiosmtplib"]
    assert beside_bare.reached == pytest.approx(0.4)
    assert not beside_bare.is_met


@pytest.mark.parametrize(
    ("mark", "line"),
    [
        (Mark("a", 25, 25, "ms"), "met    a: 25 ms (mark: ≤ 25)"),
        (Mark("a", 25.1, 25, "ms"), "MISSED a: 25.1 ms (mark: ≤ 25)"),
        (Mark("b", 0.79, 0.8, at_least=True), "MISSED b: 0.79 (mark: ≥ 0.8)"),
        (Mark("b", 1234.5, 0.8, at_least=True), "met    b: 1,234 (mark: ≥ 0.8)"),
    ],
)
def test_a_mark_says_whether_it_is_met(mark: Mark, line: str) -> None:
    assert mark.line() == line


def test_columns_are_as_wide_as_their_longest_entry() -> None:
    assert table(("", "rate"), [("long name", "1"), ("b", "10,000")]) == [
        "             rate",
        "long name       1",
        "b          10,000",
    ]


def test_a_percentile_is_a_value_that_was_measured() -> None:
    values = [float(each) for each in range(200, 0, -1)]
    assert [percentile(values, share) for share in (0.5, 0.99, 1.0)] == [100, 198, 200]
    assert percentile([7.0], 0.99) == 7


def test_the_sink_is_read_by_its_last_whole_counter(tmp_path: Path) -> None:
    counters = tmp_path / "counters"
    sink = Sink(0, 0, counters)
    counters.write_bytes(b"")
    assert sink.count() == 0
    counters.write_bytes(b"".join(b"sess=0 quit=0 mesg=%d\r" % each for each in range(1, 1001)))
    assert sink.count() == 1000
    counters.write_bytes(counters.read_bytes() + b"sess=0 quit=0 mesg=10")
    assert sink.count() == 1000


def test_ready_octets_are_the_message_without_what_names_one_row() -> None:
    head, _, body = ready().partition(b"\r\n\r\n")
    assert b"Message-ID" not in head
    assert b"X-Outbox" not in head
    assert b"\r\nSubject: Your order has been shipped\r\n" in head
    assert content(1).endswith(b"\r\n\r\n" + body)


def test_the_picture_is_svg_with_a_bar_for_each_and_a_line_for_each_mark() -> None:
    classes = {name: {each: {"median": values} for each, values in medians().items()}
               for name in ("composed", "raw")}  # fmt: skip
    picture = ET.fromstring(plot.draw({"contest": {"classes": classes}}))
    space = "{http://www.w3.org/2000/svg}"
    bars = [each for each in picture.iter(f"{space}rect") if each.get("x")]
    assert len(bars) == 6
    assert len(list(picture.iter(f"{space}line"))) == 3
    width = {"ours": 0.0, "bare": 0.0}
    width["bare"], width["ours"] = (float(each.get("width") or 0) for each in bars[:2])
    assert width["ours"] / width["bare"] == pytest.approx(0.4, rel=1e-2)
