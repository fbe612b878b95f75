"""The crash kit must be able to find something: lies, losses and doubles that are put before it."""

import dataclasses
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mailer.cli import app
from mailer.prove.kit.binaries import NoServer
from mailer.prove.kit.campaign import campaign, numbers
from mailer.prove.kit.intents import ASSUME_SENT, MARK, RESEND, Intent
from mailer.prove.kit.judge import Break, Counts, Evidence, Seen, judge
from mailer.prove.kit.plan import Fault, Plan, Through, plan
from mailer.prove.kit.play import Result, Tell
from mailer.prove.kit.providers import Accepted
from mailer.prove.kit.soak import Sample, leaks
from mailer.prove.kit.talk import Point, PostgresTalk, SmtpTalk, refusal
from mailer.prove.kit.wire import Phase, Wire
from mailer.prove.kit.words import document, lines

ADA, BOB = "to-ada@example.com", "to-bob@example.com"


def intent(key: str, *to: str, **more: object) -> Intent:
    return dataclasses.replace(Intent(key, to or (ADA,)), **more)  # type: ignore[arg-type]


def seen(number: int, key: str, state: str = "submitted", **more: object) -> Seen:
    each = {"submitted": "accepted", "failed": "refused"}.get(state, state)
    told = Seen(number, key, state, leased=False, recipients={ADA: each}, proven=True)
    return dataclasses.replace(told, **more)  # type: ignore[arg-type]


def evidence(**more: object) -> Evidence:
    """All is well: two messages, both taken once."""
    told = Evidence(
        intents=[intent("a"), intent("b")],
        seen=[seen(1, "a"), seen(2, "b")],
        accepted=[Accepted(1, (ADA,)), Accepted(2, (ADA,))],
        history=[(1, None, "pending"), (1, "pending", "sending"), (1, "sending", "submitted")],
        logs={"worker-0.log": '{"event": "attempt finished", "outbox_id": 1}\n'},
        may_doubt=0,
    )
    return dataclasses.replace(told, **more)  # type: ignore[arg-type]


def broken(told: Evidence) -> set[str]:
    return {each.invariant for each in judge(told).breaks}


def test_nothing_is_found_where_nothing_is_wrong() -> None:
    verdict = judge(evidence())
    assert verdict.breaks == []
    assert verdict.counts == Counts(committed=2, accepted=2, submitted=2)


@pytest.mark.parametrize(
    ("invariant", "doctored"),
    [
        ("I1", {"seen": [seen(1, "a")], "accepted": [Accepted(1, (ADA,))]}),
        ("I1", {"seen": [seen(1, "a"), seen(2, "b"), seen(3, "c")]}),
        ("I1", {"seen": [seen(1, "a"), seen(2, "b", leased=True)]}),
        ("I1", {"seen": [seen(1, "a"), seen(2, "b", "pending", recipients={ADA: "due"})]}),
        ("I1", {"seen": [seen(1, "a"), seen(2, "b", "failed", recipients={ADA: "accepted"})]}),
        ("I1", {"accepted": [Accepted(1, (ADA,)), Accepted(2, (ADA,)), Accepted(9, (BOB,))]}),
        ("I2", {"accepted": [Accepted(1, (ADA,)), Accepted(2, (ADA,)), Accepted(2, (ADA,))]}),
        ("I3", {"accepted": [Accepted(1, (ADA,))]}),
        ("I3", {"seen": [seen(1, "a"), seen(2, "b", proven=False)]}),
        ("I3", {"seen": [seen(1, "a"), seen(2, "b", "failed")]}),
        ("I4", {"seen": [seen(1, "a"), seen(2, "b", "ambiguous")]}),
        ("I5", {"history": [(1, "submitted", "pending")]}),
        ("I5", {"history": [(1, "ambiguous", "sending")]}),
        ("I9", {"logs": {"worker-0.log": f"to-{MARK}-1@example.com refused\n"}}),
        ("I9", {"logs": {"worker-0.log": "AUTH PLAIN AGtvbGlicmkAa29saWJyaQ==\n"}}),
    ],
)
def test_a_doctored_testimony_is_seen_through(invariant: str, doctored: dict[str, object]) -> None:
    assert invariant in broken(evidence(**doctored))


def test_losses_and_doubles_are_counted() -> None:
    counts = judge(evidence(accepted=[Accepted(1, (ADA,)), Accepted(1, (ADA,))])).counts
    assert (counts.lost, counts.duplicates, counts.chosen) == (1, 1, 0)


def test_what_the_application_chose_is_no_fault() -> None:
    told = evidence(
        intents=[intent("a", on_ambiguous=RESEND), intent("b", on_ambiguous=ASSUME_SENT)],
        accepted=[Accepted(1, (ADA,)), Accepted(1, (ADA,))],
        seen=[seen(1, "a"), seen(2, "b", proven=False)],
    )
    assert judge(told).breaks == []
    assert judge(told).counts.chosen == 1


def test_a_seed_draws_the_same_again() -> None:
    assert plan(7, Through.BOTH) == plan(7, Through.BOTH)
    assert plan(7, Through.BOTH) != plan(8, Through.BOTH)
    assert {each for seed in range(200) for each in plan(seed, Through.SMTP).faults} == set(Fault)


def _result(drawn: Plan, *breaks: Break) -> Result:
    met = tuple(True for _ in drawn.strikes)
    return Result(drawn.seed, drawn.through, drawn.faults, met, Counts(), breaks, 0.5, 1.0)


def test_the_first_seed_that_breaks_is_reported_with_the_faults_that_it_takes() -> None:
    first = next(seed for seed in range(1, 99) if len(set(plan(seed, Through.SMTP).faults)) > 2)
    guilty = plan(first, Through.SMTP).faults[1]

    def player(_: object, drawn: Plan, __: Tell) -> Result:
        bad = drawn.seed == first and guilty in drawn.faults
        return _result(drawn, *([Break("I2", "twice")] if bad else []))

    report = campaign(None, range(first - 1, first + 5), Through.SMTP, player=player)  # type: ignore[arg-type]
    told = document(report)
    assert (told["broken_seed"], told["needs"], told["ok"]) == (first, [guilty], False)
    assert [each["seed"] for each in told["results"]] == [first - 1, first]
    assert f"again: mailer prove --seed {first}" in list(lines(report))
    json.dumps(told)


def test_seeds_come_in_order() -> None:
    assert list(numbers(first=3, count=2, minutes=None)) == [3, 4]
    assert list(numbers(first=3, count=None, minutes=0.0)) == []


def test_a_leak_is_told_from_a_rest() -> None:
    flat = [Sample(number, 100.0, 40, 20) for number in range(16)]
    assert list(leaks(flat)) == []
    growing = [Sample(number, 100.0 + 10 * number, 40 + 2 * number, 20) for number in range(20)]
    assert [each.split()[0] for each in leaks(growing)] == ["memory", "descriptors"]


def _query(text: str) -> bytes:
    body = text.encode() + b"\0"
    return b"Q" + (len(body) + 4).to_bytes(4, "big") + body


def _points(talk: PostgresTalk, *texts: str) -> list[set[Point]]:
    said = b"".join(map(_query, texts))
    return [set(points) for piece in said.split(b"_", 1) for _, points in talk.heard(piece)]


STARTUP = b"\0\0\0\x09\0\x03\0\0\0"
TLS_WISH = b"\0\0\0\x08\x04\xd2\x16\x2f"


def test_statements_are_recognised_in_pieces_and_in_transactions() -> None:
    talk = PostgresTalk()
    assert [len(part) for part, _ in talk.heard(TLS_WISH + STARTUP)] == [8, 9]
    assert list(talk.heard(_query("SELECT email_finish_1()")[:9])) == []
    rest = _query("SELECT email_finish_1()")[9:]
    assert [set(points) for _, points in talk.heard(rest)] == [{Point.FINISH, Point.FINISH_COMMIT}]
    texts = ["BEGIN", "SELECT email_begin_1()", "COMMIT", "COMMIT"]
    found = [set(points) for text in texts for _, points in talk.heard(_query(text))]
    assert found == [set(), {Point.BEGIN}, {Point.BEGIN_COMMIT}, set()]


def test_a_message_is_recognised_however_it_is_cut() -> None:
    talk = SmtpTalk()
    said = [b"MAIL FROM:<>\r\n", b"DATA\r\n", b"Subject: x\r\n", b"\r\n.", b"\r\n", b"QUIT\r\n"]
    found = [set(points) for each in said for _, points in talk.heard(each)]
    assert found == [set(), set(), {Point.BODY}, {Point.BODY}, {Point.BODY, Point.DOT}, set()]


@contextmanager
def echo() -> Iterator[int]:
    """A server that answers each line with itself, in capitals."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:

        def serve() -> None:
            while True:
                try:
                    client, _ = listener.accept()
                except OSError:
                    return
                with client:
                    while data := client.recv(999):
                        client.sendall(data.upper())

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def test_a_wire_holds_half_of_what_it_caught_and_cuts() -> None:
    with ExitStack() as stack:
        wire = stack.enter_context(Wire(stack.enter_context(echo()), SmtpTalk))
        client = stack.enter_context(socket.create_connection(("127.0.0.1", wire.port)))
        client.sendall(b"DATA\r\n")
        assert client.recv(99) == b"DATA\r\n"
        snare = wire.snare(Point.DOT, Phase.HALF)
        client.sendall(b"0123456789\r\n.\r\n")
        assert snare.wait(5)
        assert client.recv(99) == b"0123456"
        snare.cut()
        assert has_ended(client)


def test_a_wire_answers_in_the_servers_stead() -> None:
    with ExitStack() as stack:
        wire = stack.enter_context(Wire(stack.enter_context(echo()), PostgresTalk))
        client = stack.enter_context(socket.create_connection(("127.0.0.1", wire.port)))
        client.sendall(STARTUP)
        assert client.recv(99) == STARTUP
        snare = wire.snare(Point.FINISH, Phase.BEFORE)
        snare.refuse(refusal("40001", "no"))
        client.sendall(_query("SELECT email_finish_1()"))
        assert b"C40001\0" in client.recv(999)


def has_ended(client: socket.socket) -> bool:
    """Whether a connection is over, in either of the ways that one may end."""
    try:
        return client.recv(99) == b""
    except ConnectionResetError:
        return True


def test_a_severed_wire_lets_nobody_in_until_it_is_mended() -> None:
    with ExitStack() as stack:
        wire = stack.enter_context(Wire(stack.enter_context(echo())))
        client = stack.enter_context(socket.create_connection(("127.0.0.1", wire.port)))
        client.sendall(b"before\n")
        assert client.recv(99) == b"BEFORE\n"
        wire.sever()
        assert has_ended(client)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", wire.port))
        wire.mend()
        with socket.create_connection(("127.0.0.1", wire.port)) as client:
            client.sendall(b"now\n")
            assert client.recv(99) == b"NOW\n"


def test_a_missing_server_is_told_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> Path:
        raise NoServer("no server found; install the package postgresql")

    monkeypatch.setattr("mailer.prove.kit.servers.find_postgres", none)
    done = CliRunner().invoke(app, ["prove", "--seed", "1"])
    assert done.exit_code == 1
    assert done.stderr == "no server found; install the package postgresql\n"


def test_the_command_refuses_two_ways_of_counting() -> None:
    assert CliRunner().invoke(app, ["prove", "--seed", "1", "--minutes", "2"]).exit_code == 2
