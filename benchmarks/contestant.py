"""What a contestant is: how it is set up, started, filled, and how its end is recognised."""

import os
import sys
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path

import psycopg2

from benchmarks.crew import Crew


@dataclass(frozen=True)
class Bout:
    """One run. `ready` holds the octets to hand over where composing is left out."""

    rows: int
    processes: int
    connections: int
    batch: int
    ready: bytes | None


@dataclass(frozen=True)
class Ring:
    """What a run has to itself: a new database, an empty Redis, the sink, its own packages."""

    database_url: str
    redis_url: str
    sink_port: int
    python: Path = Path(sys.executable)


class Contestant(ABC):
    """Somebody who sends all queued rows, each to be found out from outside."""

    name: str
    requirements: str | None = None
    """The file beside the contestants that pins its packages; None: those of the project."""

    is_durable = True
    """Whether it survives a crash with its queue, and so counts as a peer."""

    @abstractmethod
    def prepare(self, ring: Ring, bout: Bout) -> None:
        """Make tables, before anything runs."""

    @abstractmethod
    def start(self, ring: Ring, bout: Bout, crew: Crew) -> None:
        """Start the workers, and return once they wait for rows."""

    @abstractmethod
    def fill(self, ring: Ring, bout: Bout) -> None:
        """Queue all rows; the workers are held still meanwhile."""

    @abstractmethod
    def is_done(self, ring: Ring) -> bool:
        """Whether every row is in its last state; asked once the sink has them all."""


def environment(**more: str) -> dict[str, str]:
    """The caller's environment without what is the product's, and with what is given."""
    product = ("DATABASE_URL", "REDIS_URL", "PORT")
    kept = {k: v for k, v in os.environ.items() if k not in product and not k.startswith("MAILER_")}
    return {**kept, **more}


def ask(url: str, question: str) -> float:
    """Ask the database for one number."""
    connection = psycopg2.connect(url)
    try:
        with connection.cursor() as cursor:
            cursor.execute(question)
            return float((cursor.fetchone() or (0,))[0])
    finally:
        connection.close()


def execute(url: str, *statements: str, values: dict[str, object] | None = None) -> None:
    """Run statements in one transaction."""
    connection = psycopg2.connect(url)
    try:
        with connection, connection.cursor() as cursor:
            for each in statements:
                cursor.execute(each, values)
    finally:
        connection.close()
