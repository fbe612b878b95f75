"""The fake SES as a server: its page and admin doors, its log file, how it starts and stops."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError, ConnectionClosedError

from mailer import fake_ses
from mailer.fake_ses import FakeSes, NotListening
from mailer.prove.kit.waiting import until
from tests.doors.fake_ses.client import RAW, client_of, outbox_tag, refused, send

ROOT = Path(__file__).parents[3]
SCRIPT = (sys.executable, "-W", "error", "-c", "from mailer.cli import main; main()")


def ask(fake: FakeSes, path: str, body: object = None, **headers: str) -> str:
    """Ask one of the fake's own doors; with a body, by POST."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(fake.url + path, data, headers)
    with urllib.request.urlopen(request) as answer:
        text: str = answer.read().decode()
        return text


def tell(fake: FakeSes, path: str, body: object) -> Any:
    return json.loads(ask(fake, path, body, **{"Content-Type": "application/json"}))


class TestDoors:
    def test_the_page_says_what_it_is_not(self, fake: FakeSes) -> None:
        page = ask(fake, "/")
        for words in ("not Amazon SES", "No delivery", "No signature", "No events", "in memory"):
            assert words in page
        assert "Nothing yet." in page

    def test_the_page_lists_what_was_accepted_and_escapes_it(self, fake: FakeSes, ses: Any) -> None:
        message_id = send(ses, raw=b"X-Outbox-Id: <script>alert(1)</script>\r\n" + RAW)
        page = ask(fake, "/")
        assert message_id in page
        assert "ann@example.com" in page
        assert "<script" not in page
        assert "&lt;script&gt;" in page

    def test_the_page_lists_the_newest_first_and_not_all(self, fake: FakeSes, ses: Any) -> None:
        ids = [send(ses) for _ in range(201)]
        page = ask(fake, "/")
        assert page.index(ids[-1]) < page.index(ids[1])
        assert ids[0] not in page
        assert "Accepted: 201" in page

    def test_what_was_accepted_is_told_as_json(self, fake: FakeSes, ses: Any) -> None:
        message_id = send(ses, EmailTags=outbox_tag("17"))
        told = json.loads(ask(fake, "/admin/accepted"))
        (entry,) = told["accepted"]
        assert (entry["message_id"], entry["outbox_id"]) == (message_id, "17")
        assert (entry["recipients"], entry["size"]) == (["ann@example.com"], len(RAW))
        assert told["calls"] == {"SendEmail": 1}

    def test_the_account_is_switched_from_outside(self, fake: FakeSes, ses: Any) -> None:
        assert tell(fake, "/admin/state", {"suspended": True})["suspended"] is True
        with refused("AccountSuspendedException"):
            send(ses)
        assert json.loads(ask(fake, "/admin/state"))["suspended"] is True
        assert tell(fake, "/admin/state", {"suspended": False})["suspended"] is False
        send(ses)

    @pytest.mark.parametrize(
        ("body", "kind"),
        [
            ({"supsended": True}, "application/json"),
            (["suspended"], "application/json"),
            ({"suspended": True}, "text/plain"),
        ],
    )
    def test_a_switch_that_is_none_is_refused(self, fake: FakeSes, body: object, kind: str) -> None:
        before = fake.state
        with pytest.raises(urllib.error.HTTPError) as caught:
            ask(fake, "/admin/state", body, **{"Content-Type": kind})
        with caught.value as answer:
            assert answer.code == 400
            assert ": " in json.load(answer)["message"]
        assert fake.state == before

    def test_all_is_forgotten_on_demand(self, fake: FakeSes, ses: Any) -> None:
        fake.set_state(max_24_hour_send=1)
        ses.put_suppressed_destination(EmailAddress="ann@example.com", Reason="BOUNCE")
        send(ses)
        tell(fake, "/admin/reset", {})
        assert (fake.accepted(), fake.calls()) == ((), 0)
        with refused("NotFoundException", 404):
            ses.get_suppressed_destination(EmailAddress="ann@example.com")
        for _ in range(2):
            send(ses)

    def test_an_operation_that_is_not_here_is_unknown(self, ses: Any) -> None:
        with refused("UnknownOperationException", 404):
            ses.list_contact_lists()
        with refused("UnknownOperationException", 404):
            ses.create_configuration_set(ConfigurationSetName="tx")


class TestLog:
    def test_each_accepted_message_is_a_line_whatever_the_client_heard(
        self, tmp_path: Path
    ) -> None:
        log = tmp_path / "accepted.jsonl"
        for outbox_id, word in (("1", "close"), ("2", "closebefore"), ("3", "servererrorlost")):
            with fake_ses.running(log=log) as fake, client_of(fake.url) as ses:
                with pytest.raises((ConnectionClosedError, ClientError)):
                    send(ses, f"{word}@example.com", EmailTags=outbox_tag(outbox_id))
                lines = [json.loads(each) for each in log.read_text().splitlines()]
                told = [each.as_json() for each in fake.accepted()]
                assert lines[len(lines) - len(told) :] == told
                fake.reset()
        assert [each["outbox_id"] for each in lines] == ["1", "3"]

    @pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
    def test_what_cannot_be_written_down_is_not_accepted(self) -> None:
        """The line comes first: where there is none, there is no id."""
        with fake_ses.running(log=Path("/dev/full")) as fake, client_of(fake.url) as ses:
            with pytest.raises(ClientError) as caught:
                send(ses)
            assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 500
            assert fake.accepted() == ()

    def test_a_log_that_cannot_be_opened_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(NotListening, match=r"^log: "), fake_ses.running(log=tmp_path):
            pass


class TestLife:
    @pytest.mark.parametrize("word", ["stall", "slow"])
    def test_a_stop_waits_for_nobody_who_waits_in_vain(self, word: str) -> None:
        before = set(threading.enumerate())
        with ThreadPoolExecutor(1) as pool:
            with fake_ses.running() as fake, client_of(fake.url, read_timeout=100) as ses:
                fake.set_state(slow_seconds=3_600)
                call = pool.submit(send, ses, f"{word}@example.com")
                until(fake.accepted)
            assert isinstance(call.exception(), ConnectionClosedError)
        assert set(threading.enumerate()) <= before

    def test_a_port_is_free_again_after_a_stop(self) -> None:
        with fake_ses.running() as fake, client_of(fake.url) as ses:
            send(ses)
            port = int(fake.url.rpartition(":")[2])
            with pytest.raises(NotListening, match=f"^port: {port} "), fake_ses.running(port=port):
                pass
        with fake_ses.running(port=port) as fake:
            assert fake.url == f"http://127.0.0.1:{port}"

    def test_an_ipv6_host_is_served_too(self) -> None:
        try:
            socket.create_server(("::1", 0), family=socket.AF_INET6).close()
        except OSError:
            pytest.skip("no IPv6 on this system")
        with fake_ses.running(host="::1") as fake, client_of(fake.url) as ses:
            send(ses)
            assert fake.url.startswith("http://[::1]:")

    def test_what_is_not_http_is_no_end(self, fake: FakeSes, ses: Any) -> None:
        address = ("127.0.0.1", int(fake.url.rpartition(":")[2]))
        with socket.create_connection(address, timeout=10) as connection:
            connection.sendall(b"EHLO client.example\r\n\r\n")
            assert connection.recv(100).startswith(b"HTTP/1.1 400 ")
        send(ses)


@contextmanager
def command(tmp_path: Path, *options: object) -> Iterator[subprocess.Popen[str]]:
    """`mailer fake-ses` as a process, in a folder and an environment with nothing of ours."""
    process = subprocess.Popen(
        [*SCRIPT, "fake-ses", *map(str, options)],
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


class TestCommand:
    @pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
    def test_it_tells_how_to_send_through_it_and_stops_cleanly(
        self, tmp_path: Path, stop: signal.Signals
    ) -> None:
        with command(tmp_path, "--port", 0, "--log", "a.jsonl") as process:
            assert process.stdout is not None
            url = process.stdout.readline().split()[-1]
            told = [process.stdout.readline().strip() for _ in range(4)]
            assert f"MAILER_PROVIDERS=ses://eu-west-1?endpoint_url={url}" in told
            assert any(each.startswith("AWS_ACCESS_KEY_ID=") for each in told)
            with client_of(url) as ses:
                message_id = send(ses)
            process.send_signal(stop)
            _, said = process.communicate(timeout=30)
        assert (process.returncode, said) == (0, "")
        assert json.loads((tmp_path / "a.jsonl").read_text())["message_id"] == message_id

    def test_a_port_in_use_is_one_sentence(self, tmp_path: Path, fake: FakeSes) -> None:
        port = fake.url.rpartition(":")[2]
        with command(tmp_path, "--port", port) as process:
            told, said = process.communicate(timeout=30)
        assert (process.returncode, told) == (1, "")
        assert said.startswith(f"port: {port} cannot be listened on")
        assert said.count("\n") == 1
