"""The way out for results that the database would not take."""

from collections.abc import Callable, Sequence

from dramatiq import Broker, Message
from dramatiq.errors import BrokerError
from redis.exceptions import RedisError

from actors.connections import QUEUE
from mailer.log import get_logger
from mailer.record import Ended, pack

_log = get_logger("mailer.worker")


def through(broker: Broker) -> Callable[[Sequence[Ended]], bool]:
    """Build what hands results to the `record` actor by way of `broker`.

    It returns False when the broker is away too.
    """

    def take(ended: Sequence[Ended]) -> bool:
        carried = [pack(each) for each in ended]
        message: Message[None] = Message(
            queue_name=QUEUE, actor_name="record", args=(carried,), kwargs={}, options={}
        )
        try:
            broker.enqueue(message)
        except (BrokerError, RedisError) as error:
            _log.warning("broker away", error=type(error).__name__, results=len(ended))
            return False
        _log.warning("results handed to the broker", results=len(ended))
        return True

    return take
