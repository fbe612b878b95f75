"""The actor: `dramatiq benchmarks.peers.plain_dramatiq_worker:broker`, or as a command `fill`."""

import os
import smtplib
import threading

import dramatiq
import psycopg2
from dramatiq.brokers.redis import RedisBroker

from benchmarks.letter import ENVELOPE_SENDER, RECIPIENT, built

_own = threading.local()


def broker() -> None:
    """Make the broker and declare the actor; called by dramatiq itself."""
    dramatiq.set_broker(RedisBroker(url=os.environ["BENCHMARK_REDIS"]))  # type: ignore[no-untyped-call]
    dramatiq.actor(max_retries=0)(send)


def send(mail_id: int) -> None:
    """Send one row."""
    with _cursor() as cursor:
        cursor.execute(
            "SELECT recipient, subject, text, html, ready FROM mail WHERE id = %s", [mail_id]
        )
        recipient, subject, text, html, ready = cursor.fetchone() or ("", "", "", "", "")
        if ready:
            _relay().sendmail(ENVELOPE_SENDER, [RECIPIENT], ready.encode())
        else:
            _relay().send_message(built(recipient, subject, text, html))
        cursor.execute("UPDATE mail SET sent_at = now() WHERE id = %s", [mail_id])


def _cursor() -> "psycopg2.extensions.cursor":
    if not hasattr(_own, "database"):
        _own.database = psycopg2.connect(os.environ["BENCHMARK_DATABASE"])
        _own.database.autocommit = True
    cursor: psycopg2.extensions.cursor = _own.database.cursor()
    return cursor


def _relay() -> smtplib.SMTP:
    if not hasattr(_own, "relay"):
        _own.relay = smtplib.SMTP("127.0.0.1", int(os.environ["BENCHMARK_SINK"]))
    relay: smtplib.SMTP = _own.relay
    return relay


def main() -> None:
    """Send a message for each row."""
    broker()
    for number in range(1, int(os.environ["BENCHMARK_ROWS"]) + 1):
        dramatiq.get_broker().get_actor("send").send(number)


if __name__ == "__main__":
    main()
