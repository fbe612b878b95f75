"""What it is worth that nothing was heard of an attempt. Never proof that it was not accepted.

Silence means something only under a positive control: that others, begun later through the same
provider, have been heard of.
"""

from dataclasses import dataclass
from typing import Any

from mailer.database import is_postgresql, rows
from mailer.next_step import span

ENOUGH = 100
"""More later ones would not add to the confidence."""


@dataclass(frozen=True, slots=True)
class Silence:
    """How long nothing was heard of the latest attempt in doubt, and what else was heard.

    `later` counts attempts of the same provider, begun later, that events have come for (at most
    `ENOUGH`). `is_spoken_of` tells that events of that provider's attempts come here at all.
    """

    seconds: float
    later: int
    is_spoken_of: bool

    @property
    def means_little(self) -> bool:
        """Whether events are to be expected here, and none came for later attempts either."""
        return self.is_spoken_of and not self.later

    @property
    def heard(self) -> str:
        """What has been heard, in words; it never says that the attempt was not accepted."""
        waited = f"no evidence of acceptance in {span(self.seconds)}"
        if self.later:
            return f"{waited}, while {self.later} later attempts were heard of"
        if self.is_spoken_of:
            return f"{waited}, nor of any later attempt"
        return f"{waited}; no events come of this provider's attempts"

    @property
    def words(self) -> str:
        """The record of a decision made in this silence."""
        return f"{self.heard}; sent again by policy"


def silence_about(outbox_id: int) -> Silence:
    """Say what was not heard about a row's latest attempt in doubt."""
    found = rows(_spelled(_SILENCE), {"outbox_id": outbox_id, "enough": ENOUGH})
    if not found:
        return Silence(0.0, 0, is_spoken_of=False)
    seconds, later, spoken_of = found[0]
    return Silence(max(0.0, float(seconds)), int(later), is_spoken_of=bool(spoken_of))


_SILENCE = """
SELECT {age}, (SELECT count(*) FROM (
        SELECT DISTINCT e.attempt_id FROM email_event e JOIN email_attempt b ON b.id = e.attempt_id
        WHERE e.attempt_id > a.id AND b.provider = a.provider LIMIT {enough}) AS heard),
    EXISTS (SELECT 1 FROM email_event e JOIN email_attempt b ON b.id = e.attempt_id
        WHERE b.provider = a.provider)
FROM email_attempt a
WHERE a.outbox_id = {outbox_id} AND a.outcome = 'ambiguous' AND a.resolution IS NULL
ORDER BY a.number DESC LIMIT 1
"""


def _spelled(sql: str) -> Any:
    if is_postgresql():
        return sql.format(
            age="extract(epoch FROM now() - a.finished_at)",
            enough="%(enough)s",
            outbox_id="%(outbox_id)s",
        )
    return sql.format(
        age="(julianday('now') - julianday(a.finished_at)) * 86400.0",
        enough=":enough",
        outbox_id=":outbox_id",
    )
