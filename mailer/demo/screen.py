"""What the demo puts on the screen: sentences, news of attempts, and a board that follows them.

On a terminal the board moves; in a pipe it is printed once, when it rests.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from mailer.cli.show import console, show_providers, show_timeline
from mailer.demo.story import finished
from mailer.outcome import Outcome
from mailer.states import RowState
from mailer.views import AttemptView, Providers, Timeline

_Cells = tuple[int, str, str, int, str]

_STYLES: Mapping[str, str] = {
    RowState.PENDING: "cyan",
    RowState.SENDING: "blue",
    RowState.SUBMITTED: "green",
    RowState.FAILED: "red",
    Outcome.ACCEPTED: "green",
    Outcome.RETRYABLE: "cyan",
    Outcome.PERMANENT: "red",
    Outcome.AMBIGUOUS: "bold yellow",
}


@dataclass(slots=True)
class Screen:
    """Standard output, for people."""

    console: Console = field(default_factory=console)
    _told: set[tuple[int, int]] = field(default_factory=set)

    def title(self, text: str) -> None:
        """Begin a chapter."""
        self.console.print()
        self._line(Text(text, style="bold"))

    def say(self, *sentences: str) -> None:
        """Tell something, one sentence a line."""
        for each in sentences:
            self._line(Text(f"  {each}"))

    def complain(self, sentence: str) -> None:
        """Tell what went wrong."""
        self._line(Text(f"  {sentence}", style="bold red"))

    def timeline(self, told: Timeline) -> None:
        """Show one message's whole story as `mailer show` does."""
        self.console.print()
        show_timeline(told)

    def providers(self, found: Providers) -> None:
        """Show what workers know of each provider as `mailer provider list` does."""
        self.console.print()
        show_providers(found)

    @contextmanager
    def board(self, news: Mapping[str, str]) -> Iterator["Board"]:
        """Have a board that follows the messages for the length of the block.

        `news` has a sentence for each outcome of an attempt.
        """
        with Live(console=self.console, auto_refresh=False) as live:
            yield Board(self, live, news)
        if not self.console.is_terminal:
            self.console.print()

    def news(self, outbox_id: int, attempt: AttemptView, sentence: str) -> None:
        """Tell what an attempt came to, once."""
        key = outbox_id, attempt.number
        if key in self._told:
            return
        self._told.add(key)
        outcome = attempt.outcome or ""
        told = sentence.format(code=attempt.code, decision=attempt.decision)
        self._line(
            Text.assemble(
                f"  message {outbox_id}, attempt {attempt.number}: ",
                (outcome, _STYLES[outcome]),
                f", {told}",
            )
        )

    def _line(self, text: Text) -> None:
        self.console.print(text, soft_wrap=True)


class Board:
    """Where the messages stand, and news of each attempt once it has an outcome."""

    def __init__(self, screen: Screen, live: Live, news: Mapping[str, str]) -> None:
        self._screen = screen
        self._live = live
        self._news = news
        self._shown: list[_Cells] = []

    def show(self, told: Sequence[Timeline]) -> None:
        """Bring the board up to date."""
        cells = [_cells(each) for each in told]
        if cells == self._shown:
            return
        self._shown = cells
        self._live.update(_table(cells))
        for one in told:
            for each in finished(one):
                self._screen.news(one.message.id, each, self._news[each.outcome or ""])
        self._live.refresh()


def _cells(told: Timeline) -> _Cells:
    addresses = ", ".join(each.address for each in told.recipients)
    message = told.message
    return message.id, addresses, message.state, len(finished(told)), told.next_step


def _table(rows: Sequence[_Cells]) -> Table:
    table = Table(box=None, header_style="dim")
    for heading in ("message", "to", "state", "attempts", "what follows"):
        table.add_column(heading)
    for number, address, state, attempts, following in rows:
        styled = Text(state, style=_STYLES.get(state, ""))
        table.add_row(str(number), address, styled, str(attempts), following)
    return table
