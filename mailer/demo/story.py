"""The demo's stories: what each is to show, and whether the record and the relay agree on it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from mailer.demo.sink import Entry, Temper
from mailer.outcome import Outcome
from mailer.states import AttemptState, Resolution, RowState
from mailer.views import AttemptView, Timeline

_AT_WORK = frozenset({RowState.PENDING, RowState.SENDING})


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """One sign-up, and what is said of its mail beforehand.

    `outcomes` are those of its attempts. `leads_to` is the row's state once the worker has nothing
    left to do, `ends` the one after the operator.
    """

    name: str
    email: str
    outcomes: tuple[Outcome, ...]
    leads_to: RowState
    ends: RowState


@dataclass(frozen=True, slots=True, kw_only=True)
class Story(Promise):
    """One sign-up, how the relay treats its mail, and what the relay has to say of it.

    `replies` are the codes of what the relay said last to each try, an empty one where it said
    nothing.
    """

    temper: Temper
    replies: tuple[str, ...]


STORIES = (
    Story(
        name="Ana",
        email="ana@example.com",
        temper=Temper.WILLING,
        replies=("250",),
        outcomes=(Outcome.ACCEPTED,),
        leads_to=RowState.SUBMITTED,
        ends=RowState.SUBMITTED,
    ),
    Story(
        name="Ben",
        email="ben@example.com",
        temper=Temper.GREYLISTING,
        replies=("451", "250"),
        outcomes=(Outcome.RETRYABLE, Outcome.ACCEPTED),
        leads_to=RowState.SUBMITTED,
        ends=RowState.SUBMITTED,
    ),
    Story(
        name="Cleo",
        email="cleo@example.com",
        temper=Temper.REFUSING,
        replies=("550",),
        outcomes=(Outcome.PERMANENT,),
        leads_to=RowState.FAILED,
        ends=RowState.FAILED,
    ),
    Story(
        name="Dan",
        email="dan@example.com",
        temper=Temper.VANISHING,
        replies=("",),
        outcomes=(Outcome.AMBIGUOUS,),
        leads_to=RowState.AMBIGUOUS,
        ends=RowState.SUBMITTED,
    ),
)

DECLINED_NAME, DECLINED_EMAIL = "Eve", "eve@example.com"
"""Signs up and is rolled back, together with the intent to welcome her."""

TEMPERS: Mapping[str, Temper] = {
    DECLINED_EMAIL: Temper.WILLING,
    **{each.email: each.temper for each in STORIES},
}


def finished(told: Timeline) -> list[AttemptView]:
    """The attempts of a message that have an outcome."""
    return [each for each in told.attempts if each.state == AttemptState.FINISHED]


def is_at_work(told: Timeline) -> bool:
    """Whether a worker has something left to do for a message."""
    return told.message.state in _AT_WORK


def taken(told: Timeline, log: Sequence[Entry]) -> list[Entry]:
    """What the relay's log has on taking a message."""
    return [each for each in log if each.outbox_id == str(told.message.id)]


def contradictions(
    told: Sequence[Timeline], log: Sequence[Entry], *, settled: bool
) -> Iterator[str]:
    """Hold the record against the stories and the relay's own log; a sentence a contradiction.

    `told` has a timeline for each story, in order. `settled` says that the operator has been there.
    """
    for story, timeline in zip(STORIES, told, strict=True):
        problems = [*untrue(story, timeline, settled=settled), *_unheard(story, timeline, log)]
        for each in problems:
            yield f"message {timeline.message.id} {each}"
    if {each.recipient for each in log} - {each.email for each in STORIES}:
        yield "the relay was asked to take a message that nobody committed"


def untrue(story: Promise, told: Timeline, *, settled: bool) -> Iterator[str]:
    """Hold the record of one message against what was promised; half a sentence a contradiction."""
    state = story.ends if settled else story.leads_to
    if told.message.state != state:
        yield f"is {told.message.state}; promised: {state}"
    outcomes = tuple(each.outcome for each in finished(told))
    if outcomes != story.outcomes:
        yield f"had the attempts {listed(outcomes)}; promised: {listed(story.outcomes)}"
    by_hand = int(settled and story.leads_to is RowState.AMBIGUOUS)
    resolutions = [each.resolution for each in told.attempts if each.resolution]
    promised = [Resolution.ACCEPTED] * by_hand
    if resolutions != promised:
        yield f"was settled as {listed(resolutions)}; promised: {listed(promised)}"
    if len(told.audit) != by_hand:
        yield f"has {len(told.audit)} lines in its audit; promised: {by_hand}"


def _unheard(story: Story, told: Timeline, log: Sequence[Entry]) -> Iterator[str]:
    heard = [each for each in log if each.recipient == story.email]
    replies = tuple(each.reply[:3] for each in heard)
    if replies != story.replies:
        yield f"heard {listed(replies)} from the relay; promised: {listed(story.replies)}"
    if [each for each in heard if each.queue_id] != taken(told, log):
        yield "was taken by the relay under the number of another"


def listed(words: Sequence[str | None]) -> str:
    """Write words as an enumeration."""
    return ", ".join(each or "silence" for each in words) or "nothing"
