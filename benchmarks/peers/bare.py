"""Bare aiosmtplib: ready octets over reused connections, no queue. The library's own limit."""

from benchmarks.contestant import Bout, Contestant, Ring, environment
from benchmarks.crew import Crew


class Bare(Contestant):
    """Composes nothing in either class, and keeps nothing: what there is to lose, it loses."""

    name = "bare aiosmtplib"
    is_durable = False

    def prepare(self, ring: Ring, bout: Bout) -> None:
        """There is nothing to prepare."""

    def start(self, ring: Ring, bout: Bout, crew: Crew) -> None:
        """Start the processes; each connects and waits to be let go."""
        share = bout.rows // bout.processes
        shares = [share + bout.rows % bout.processes, *[share] * (bout.processes - 1)]
        command = [str(ring.python), "-m", "benchmarks.peers.bare_worker"]
        started = [
            crew.launch(
                [*command, *map(str, (ring.sink_port, each, bout.connections))], environment()
            )
            for each in shares
        ]
        for each in started:
            crew.hear(each, "ready")

    def fill(self, ring: Ring, bout: Bout) -> None:
        """The processes know how many they send."""

    def is_done(self, ring: Ring) -> bool:
        """What the sink has is all there is."""
        return True
