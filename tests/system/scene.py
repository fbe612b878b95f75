"""The whole way there and back: a worker, the web process, and a fake SES that posts to it."""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from mailer.prove.kit.application import Message
from mailer.prove.kit.fleet import Web, Worker
from mailer.prove.kit.ledger import Ledger
from mailer.prove.kit.processes import free_port
from mailer.prove.kit.waiting import eventually
from tests.system.application import commit
from tests.system.ses import NO_LIMIT, FakeSes, ses_settings, telling_ses, web_settings

_GROUP = 50
_FACTS = """
SELECT o.dedup_key, f.kind FROM email_fact f JOIN email_outbox o ON o.id = f.outbox_id
WHERE f.trusted AND NOT f.unlisted ORDER BY f.id
"""
_EVENTS = "SELECT state, count(*) FROM email_event GROUP BY state"


@dataclass(frozen=True, slots=True)
class Scene:
    """One worker process, one web process, and a fake SES that tells the latter."""

    ledger: Ledger
    fake: FakeSes
    web: Web
    worker: Worker
    port: int
    variables: dict[str, str]
    folder: Path

    def commit(self, *messages: Message) -> None:
        """Have an application commit these messages, some at a time."""
        groups = [messages[begin : begin + _GROUP] for begin in range(0, len(messages), _GROUP)]
        commit(self.variables, self.folder, *groups)

    def wait_interpreted(self) -> Counter[str]:
        """Return the states of all events once they were taken and nothing is left to read."""
        self.fake.wait_told()
        eventually(lambda: self.events()["received"] == 0, "all events are interpreted")
        return self.events()

    def events(self) -> Counter[str]:
        """Return how many events are in each state."""
        return Counter(dict(self.ledger.ask(_EVENTS)))

    def facts(self) -> dict[str, Counter[str]]:
        """Return how often each thing is known of each message, by its key."""
        found: dict[str, Counter[str]] = {}
        for key, kind in self.ledger.ask(_FACTS):
            found.setdefault(key, Counter())[kind] += 1
        return found


@contextmanager
def scene(
    ledger: Ledger, redis_url: str, folder: Path, *, query: str = "", **more: str
) -> Iterator[Scene]:
    """Start everything, with `more` settings; stop the two processes in good order.

    The URL that is subscribed ends in `query`.
    """
    port = free_port()
    with ExitStack() as stack:
        fake = stack.enter_context(telling_ses(folder, port, query))
        fake.set_state(**NO_LIMIT)
        variables = ses_settings(ledger, fake, REDIS_URL=redis_url, **more)
        web = stack.enter_context(Web(web_settings(variables, fake, folder, port), folder))
        worker = stack.enter_context(Worker(variables, folder))
        worker.wait_started()
        yield Scene(ledger, fake, web, worker, port, variables, folder)
        assert (web.stop(), worker.stop()) == (0, 0)
        assert len(web.events("subscription confirmed")) == 1
