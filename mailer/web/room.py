"""How much of what strangers send is held at once."""

from collections.abc import Iterator
from contextlib import contextmanager

from mailer.feed import NotNow

BUSY_RULE = "busy"


class Room:
    """Counts the requests that are being answered, and the octets of their bodies."""

    def __init__(self, *, requests: int, octets: int) -> None:
        self._requests = requests
        self._octets = octets

    @contextmanager
    def place(self) -> Iterator["Place"]:
        """Have room for one request for the block; raises NotNow when there is none."""
        if self._requests == 0:
            raise NotNow(BUSY_RULE)
        self._requests -= 1
        place = Place(self)
        try:
            yield place
        finally:
            self._requests += 1
            self._octets += place.held

    def take(self, octets: int) -> None:
        """Take room for octets; raises NotNow when there is not so much."""
        if octets > self._octets:
            raise NotNow(BUSY_RULE)
        self._octets -= octets


class Place:
    """One request's share of the room; `held` are the octets that it keeps."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self.held = 0

    def hold(self, octets: int) -> None:
        """Keep some octets more; raises NotNow."""
        self._room.take(octets)
        self.held += octets
