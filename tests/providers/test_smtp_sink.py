"""The sink's own promise: what it logged is what it took, before any answer."""

import json
import signal
import subprocess
import sys
from pathlib import Path

from mailer.outcome import Outcome
from tests.providers.calls import a_call, outcomes, outcomes_of, relay, run, send_all

CONTENT = b"X-Outbox-Id: 7\r\nX-Outbox-Attempt: 2\r\nSubject: s\r\n\r\nX-Outbox-Id: 8\r\n"


def test_tempers_and_log(tmp_path: Path) -> None:
    log = tmp_path / "accepted.jsonl"
    command = [sys.executable, "-m", "mailer.prove.kit.smtp_sink", "--log", str(log)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as sink:
        assert sink.stdout
        port = int(sink.stdout.readline())
        everyone = [f"{temper}@there.example" for temper in ("greylist-1", "refuse-1", "plain")]
        calls = [
            a_call(*everyone, content=CONTENT),
            a_call("greylist-1@there.example", content=CONTENT),
            a_call("drop-1@there.example", content=CONTENT),
            a_call("stall-1@there.example", content=CONTENT),
        ]
        results = run(send_all(relay(port, "data_timeout=0.3"), *calls))
        sink.send_signal(signal.SIGTERM)
        assert sink.wait() == 0

    assert outcomes_of(results[0]) == [Outcome.RETRYABLE, Outcome.PERMANENT, Outcome.ACCEPTED]
    assert outcomes(results[1:]) == [Outcome.ACCEPTED, Outcome.AMBIGUOUS, Outcome.AMBIGUOUS]
    entries = [json.loads(line) for line in log.read_text().splitlines()]
    assert [each["recipients"] for each in entries] == [
        ["plain@there.example"],
        ["greylist-1@there.example"],
        ["drop-1@there.example"],
        ["stall-1@there.example"],
    ]
    assert {(each["outbox_id"], each["attempt"]) for each in entries} == {("7", "2")}
    assert len({each["sha256"] for each in entries}) == 1
