"""Log lines: one form for everybody's, and nothing in them that could be an address or a secret."""

import io
import json
import logging
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from mailer.errors import InvalidEmail
from mailer.log import LogFormat, configure, get_logger
from mailer.log_guard import CHAIN_LIMIT, FRAMES_LIMIT, REDACTED, guard

ADDRESS = "canary.local@canary.example"
WORDS = st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=8)
ADDRESSES = st.builds("{}@{}.example".format, WORDS, WORDS)
VALUES = st.recursive(
    st.none() | st.integers() | st.text(max_size=9) | st.binary(max_size=9) | ADDRESSES,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(WORDS | ADDRESSES, inner, max_size=3)
    ),
)

URL = "redis://user:canary-pass@canary.example:6379"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def stream(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    """Give a stream to log to, and put the process's logging back as it was."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)
    yield io.StringIO()
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture
def lines(stream: io.StringIO) -> Callable[[], list[dict[str, Any]]]:
    configure("json", stream=stream)
    return lambda: [json.loads(line) for line in stream.getvalue().splitlines()]


Lines = Callable[[], list[dict[str, Any]]]


def fail() -> None:
    raise ValueError(f"550 no such user {ADDRESS}")


class TestForm:
    def test_our_line_and_a_librarys_have_the_same_columns(self, lines: Lines) -> None:
        get_logger("mailer.delivery").info("sent", outbox_id=7, took_ms=1.5)
        logging.getLogger("dramatiq.worker").warning("Restarting consumer in %0.2f seconds", 3)

        ours, theirs = lines()
        assert list(ours)[:4] == list(theirs)[:4] == ["timestamp", "level", "logger", "event"]
        assert (ours["outbox_id"], ours["took_ms"]) == (7, 1.5)
        assert theirs["logger"] == "dramatiq.worker"
        assert theirs["level"] == "warning"
        assert theirs["event"] == "Restarting consumer in 3.00 seconds"
        assert theirs["timestamp"].endswith("+00:00")

    def test_below_the_level_nothing_is_written(self, lines: Lines) -> None:
        get_logger("mailer").debug("detail")
        logging.getLogger("aiosmtplib").debug("detail")
        assert lines() == []

    def test_bound_pairs_are_on_every_line(self, lines: Lines) -> None:
        log = get_logger("mailer").bind(worker="w1")
        log.info("claimed", rows=3)
        log.info("sent 100%")
        assert [line["worker"] for line in lines()] == ["w1", "w1"]
        assert lines()[1]["event"] == "sent 100%"

    def test_a_pair_named_like_an_attribute_of_logging_is_kept(self, lines: Lines) -> None:
        get_logger("mailer").info("opened", name="relay", module="smtp", message="m", level="high")
        (line,) = lines()
        assert (line["name_"], line["module_"], line["message_"]) == ("relay", "smtp", "m")
        assert line["level"] == "info"

    def test_configured_twice_a_line_is_written_once(
        self, lines: Lines, stream: io.StringIO
    ) -> None:
        configure("json", stream=stream)
        get_logger("mailer").info("once")
        assert len(lines()) == 1

    @pytest.mark.parametrize(
        ("fmt", "terminal", "is_json"),
        [
            ("auto", False, True),
            ("auto", True, False),
            ("text", False, False),
            ("json", True, True),
        ],
    )
    def test_people_read_text_and_machines_json(
        self,
        stream: io.StringIO,
        monkeypatch: pytest.MonkeyPatch,
        fmt: LogFormat,
        terminal: bool,
        is_json: bool,
    ) -> None:
        caught = Terminal() if terminal else stream
        monkeypatch.setenv("NO_COLOR", "1")
        configure(fmt, stream=caught)
        get_logger("mailer").info("sent", outbox_id=7)
        assert caught.getvalue().startswith("{") is is_json
        assert "sent" in caught.getvalue()

    def test_an_application_that_logs_its_own_way_gets_plain_records(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        get_logger("mailer.hints").warning("no hint", outbox_id=7, to=ADDRESS)
        (record,) = caplog.records
        assert (record.getMessage(), vars(record)["outbox_id"]) == ("no hint", 7)
        assert vars(record)["to"] == REDACTED


class TestGuard:
    @pytest.mark.parametrize(
        "text",
        [
            ADDRESS,
            f"could not deliver to <{ADDRESS}>: 550",
            '"quoted local"@canary.example',
            "postmaster@[192.0.2.1]",
            "почта@пример.example",
            "user\uff20canary.example",
            "user%40canary.example",
            f"Error connecting to {URL}",
            "redis://:canary-pass@canary.example",
        ],
    )
    def test_a_text_with_an_address_or_a_credential_is_left_out_whole(
        self, lines: Lines, text: str
    ) -> None:
        log = get_logger("mailer")
        log.info(text)
        log.info("refused %s", text)
        log.info("refused", reply=text, deep={"list": [{"tuple": (text,)}], text: 1})
        logging.getLogger("redis").warning("%s went away", text)
        logging.getLogger("redis").warning(text, extra={"url": text})

        written = json.dumps(lines(), ensure_ascii=False)
        assert len(lines()) == 5
        assert "canary" not in written
        assert "пример" not in written
        assert "192.0.2.1" not in written

    def test_what_gives_nothing_away_is_kept(self, lines: Lines) -> None:
        pairs = {
            "outbox_id": 7,
            "rule": "rcpt-550",
            "host": "smtp://relay.example:587",
            "ids": [1, 2],
            "ok": True,
            "none": None,
            "nested": {"stage": "data"},
        }
        get_logger("mailer").info("refused", **pairs)
        (line,) = lines()
        assert {key: line[key] for key in pairs} == pairs

    def test_an_object_is_told_by_its_type(self, lines: Lines) -> None:
        get_logger("mailer").info(
            "odd", body=b"canary", error=ValueError("canary"), url=SecretStr("canary"), call=fail
        )
        (line,) = lines()
        assert (line["body"], line["error"]) == ("<bytes>", "<ValueError>")
        assert "canary" not in json.dumps(line)

    def test_what_refers_to_itself_comes_to_an_end(self, lines: Lines) -> None:
        endless: list[object] = []
        endless.append(endless)
        get_logger("mailer").info("odd", endless=endless)
        assert REDACTED in json.dumps(lines())

    @given(value=VALUES, address=ADDRESSES)
    def test_no_address_survives_at_any_depth(self, value: object, address: str) -> None:
        event = {"event": "e", "value": [value, {address: address}]}
        guarded = json.dumps(guard(None, "info", event), ensure_ascii=False)
        assert address not in guarded
        assert json.loads(guarded)["value"][1] == {REDACTED: REDACTED}


class TestExceptions:
    def test_an_exception_is_told_by_type_and_frames(self, lines: Lines) -> None:
        for log in (get_logger("mailer"), logging.getLogger("dramatiq")):
            try:
                try:
                    fail()
                except ValueError as cause:
                    raise ConnectionError(URL) from cause
            except ConnectionError:
                log.exception("went wrong")

        for line in lines():
            first, *rest = line["exception"].splitlines()
            assert first == "builtins.ConnectionError"
            assert "caused by builtins.ValueError" in rest
            assert any("words/test_log.py:" in each and each.endswith(" fail") for each in rest)
            assert "canary" not in json.dumps(line)

    def test_people_see_the_same(self, stream: io.StringIO) -> None:
        configure("text", stream=stream)
        try:
            fail()
        except ValueError:
            logging.getLogger("dramatiq").exception("went wrong")
        assert "builtins.ValueError\n" in stream.getvalue()
        assert "canary" not in stream.getvalue()

    def test_the_message_of_our_own_error_is_kept(self, lines: Lines) -> None:
        error = InvalidEmail("to", "names nobody; give at least one address")
        get_logger("mailer").error("refused", exc_info=error)
        assert lines()[0]["exception"].endswith(
            "InvalidEmail: to: names nobody; give at least one address"
        )

    def test_the_members_of_a_group_are_told(self, lines: Lines) -> None:
        group = ExceptionGroup(ADDRESS, [ValueError(ADDRESS), OSError(URL)])
        get_logger("mailer").error("refused", exc_info=group)
        text = lines()[0]["exception"]
        assert "with builtins.ValueError" in text
        assert "with builtins.OSError" in text
        assert "canary" not in text

    def test_a_chain_and_its_frames_are_bounded(self, lines: Lines) -> None:
        def deeper(levels: int) -> None:
            if levels == 0:
                fail()
            deeper(levels - 1)

        error: BaseException | None = None
        for _ in range(20):
            try:
                deeper(40)
            except ValueError as caught:
                caught.__cause__, error = error, caught
        get_logger("mailer").error("refused", exc_info=error)

        text = lines()[0]["exception"]
        assert text.count("builtins.ValueError") == CHAIN_LIMIT
        assert text.count("\n  ") == CHAIN_LIMIT * FRAMES_LIMIT

    def test_a_stack_is_left_out(self, lines: Lines) -> None:
        logging.getLogger("library").warning("odd", stack_info=True)
        assert set(lines()[0]) == {"timestamp", "level", "logger", "event"}

    def test_a_line_that_cannot_be_formatted_gives_nothing_away(
        self, lines: Lines, stream: io.StringIO
    ) -> None:
        root = logging.getLogger()
        root.handlers[:] = [each for each in root.handlers if getattr(each, "stream", 0) is stream]
        logging.getLogger("library").warning("%d items", ADDRESS)
        (line,) = lines()
        assert line["event"] == "a log line could not be written"
        assert "test_log.py" in line["source"]

    def test_what_nobody_caught_becomes_a_line(self, lines: Lines) -> None:
        thread = threading.Thread(target=fail)
        thread.start()
        thread.join()
        try:
            fail()
        except ValueError as error:
            sys.excepthook(ValueError, error, error.__traceback__)

        assert [line["level"] for line in lines()] == ["critical", "critical"]
        assert all("builtins.ValueError" in line["exception"] for line in lines())
        assert "canary" not in json.dumps(lines())


def test_a_lease_token_is_cut_out_wherever_it_stands(lines: Lines) -> None:
    token = "0123456789abcdef" * 2
    logging.getLogger("foreign").warning("failed: record([{'lease_token': '%s'}])", token)
    (line,) = lines()
    assert line["event"] == f"failed: record([{{'lease_token': '{REDACTED}'}}])"


def test_a_seal_that_somebody_else_wrote_is_none(lines: Lines) -> None:
    forged = {"guarded_by_mailer": "yes", "reply": ADDRESS}
    logging.getLogger("redis").warning("refused", extra=forged)
    get_logger("mailer").info("refused", **forged)
    assert ADDRESS not in json.dumps(lines())
    assert all("guarded_by_mailer" not in each for each in lines())
