"""The demo's application: it signs people up and welcomes them, both in one transaction."""

from collections.abc import Callable

from peewee import AutoField, CharField, Database, Model

import mailer


class Account(Model):
    """One person who signed up."""

    id = AutoField()
    name = CharField()
    email = CharField(unique=True)

    class Meta:
        table_name = "account"


class Declined(Exception):
    """The payment was declined: the sign-up is off."""


Charge = Callable[[Account], None]


def free(_: Account) -> None:
    """Charge nothing."""


def decline(_: Account) -> None:
    """Charge a card that is declined; raises Declined."""
    raise Declined


class SignUps:
    """What the application does with its own table and the outbox beside it."""

    def __init__(self, database: Database) -> None:
        self._database = database
        database.bind([Account])
        database.create_tables([Account])

    def sign_up(self, name: str, email: str, charge: Charge = free) -> mailer.Enqueued:
        """Make an account and the intent to welcome it, or neither where `charge` raises."""
        with self._database.atomic():
            account = Account.create(name=name, email=email)
            welcome = self.welcome(account)
            charge(account)
        return welcome

    def welcome(self, account: Account) -> mailer.Enqueued:
        """Commit the intent to welcome an account; asking twice is asking once."""
        return mailer.enqueue(
            dedup_key=f"welcome:{account.id}:v1",
            to=account.email,
            template="welcome-v1",
            context={"name": account.name},
        )

    def account_of(self, email: str) -> Account | None:
        """Find an account."""
        found: Account | None = Account.get_or_none(Account.email == email)
        return found
