"""The stories over Amazon SES, and whether the record and the fake SES agree on them."""

from collections.abc import Iterator, Sequence

from mailer.circuit import CircuitState
from mailer.demo.story import Promise, finished, untrue
from mailer.fake_ses import Accepted
from mailer.outcome import Outcome
from mailer.states import RowState
from mailer.views import CircuitView, Timeline

STORIES = (
    Promise(
        name="Ana",
        email="ana@example.com",
        outcomes=(Outcome.ACCEPTED,),
        leads_to=RowState.SUBMITTED,
        ends=RowState.SUBMITTED,
    ),
    Promise(
        name="Ben",
        email="throttleonce-ben@example.com",
        outcomes=(Outcome.RETRYABLE, Outcome.ACCEPTED),
        leads_to=RowState.SUBMITTED,
        ends=RowState.SUBMITTED,
    ),
    Promise(
        name="Dan",
        email="servererrorlost-dan@example.com",
        outcomes=(Outcome.AMBIGUOUS,),
        leads_to=RowState.AMBIGUOUS,
        ends=RowState.SUBMITTED,
    ),
)
"""While the account is in good standing; the fake's script goes by the first word of an address."""

LATE_STORIES = (
    Promise(
        name="Eli",
        email="eli@example.com",
        outcomes=(Outcome.RETRYABLE,),
        leads_to=RowState.PENDING,
        ends=RowState.PENDING,
    ),
    Promise(
        name="Fay",
        email="fay@example.com",
        outcomes=(),
        leads_to=RowState.PENDING,
        ends=RowState.PENDING,
    ),
    Promise(
        name="Gus",
        email="gus@example.com",
        outcomes=(),
        leads_to=RowState.PENDING,
        ends=RowState.PENDING,
    ),
)
"""Once the account is suspended: the first one meets it, and the others are kept from it."""


def contradictions(
    stories: Sequence[Promise],
    told: Sequence[Timeline],
    taken: Sequence[Accepted],
    *,
    calls: int,
    settled: bool = False,
) -> Iterator[str]:
    """Hold the record against the stories, the fake's log and its count of requests.

    `told` has a timeline for each story, in order. `settled` says that the operator has been there.
    """
    for story, timeline in zip(stories, told, strict=True):
        problems = [*untrue(story, timeline, settled=settled), *_unheard(story, timeline, taken)]
        for each in problems:
            yield f"message {timeline.message.id} {each}"
    tries = sum(len(finished(each)) for each in told)
    if calls != tries:
        yield f"SES was asked {calls} times; the record has {tries} attempts"
    if {each.outbox_id for each in taken} - {str(each.message.id) for each in told}:
        yield "SES took a message that nobody committed"


def _unheard(story: Promise, told: Timeline, taken: Sequence[Accepted]) -> Iterator[str]:
    may_have = (Outcome.ACCEPTED, Outcome.AMBIGUOUS)
    sent = [
        (each.request_tag, (story.email,)) for each in told.attempts if each.outcome in may_have
    ]
    logged = [(each.attempt, each.recipients) for each in entries(told, taken)]
    if logged != sent:
        yield f"was taken {len(logged)} times by SES; the record tells of {len(sent)}, or of others"
    if told.message.attempts:
        yield f"was charged {told.message.attempts} attempts; promised: none"


def entries(told: Timeline, taken: Sequence[Accepted]) -> list[Accepted]:
    """What the fake's log has on a message."""
    return [each for each in taken if each.outbox_id == str(told.message.id)]


def after_recovery(stories: Sequence[Promise]) -> list[Promise]:
    """The stories as they go on once SES takes mail again: each is accepted."""
    return [
        Promise(
            name=each.name,
            email=each.email,
            outcomes=(*each.outcomes, Outcome.ACCEPTED),
            leads_to=RowState.SUBMITTED,
            ends=RowState.SUBMITTED,
        )
        for each in stories
    ]


def untrue_of_the_circuit(circuit: CircuitView, told: Sequence[Timeline]) -> Iterator[str]:
    """Hold what was said of the recovery against the record; a sentence a contradiction.

    One of the messages `told` has to have been sent before the circuit closed, the others after.
    """
    if circuit.state != CircuitState.CLOSED:
        yield f"the circuit is {circuit.state}; promised: closed"
    sent = [each for one in told for each in finished(one) if each.outcome == Outcome.ACCEPTED]
    probes = [each for each in sent if each.started_at and each.started_at < circuit.since]
    if len(probes) != 1:
        yield f"{len(probes)} messages went out before the circuit closed; promised: one probe"
