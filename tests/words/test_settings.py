"""Settings: read once, and every mistake told at once without giving anything away."""

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from mailer.errors import SettingsError
from mailer.settings import Role, load, table
from mailer.settings_fields import Settings

CANARY = "canary-7Q2x"
ARN = "arn:aws:sns:eu-west-1:111122223333:"
TOPICS = (f"{ARN}mail-events", "arn:aws-us-gov:sns:us-gov-west-1:111122223333:mail_Feedback")

LEAST = {"DATABASE_URL": "postgres://u:p@db.example/app"}
WORKER = LEAST | {
    "MAILER_PROVIDERS": "smtp://relay.example:587",
    "MAILER_FROM": "App <app@mail.example>",
    "MAILER_SECRET": "0123456789abcdef",
}


def mistakes(environ: dict[str, str], role: Role = "operator") -> dict[str, str]:
    """Return what `load` refuses, by variable."""
    with pytest.raises(SettingsError) as caught:
        load(environ, role=role)
    lines = str(caught.value).splitlines()[1:]
    return dict(line.strip().split(": ", maxsplit=1) for line in lines)


class TestDefaults:
    def test_little_has_to_be_set(self) -> None:
        settings = load(LEAST)

        assert settings.database_address == LEAST["DATABASE_URL"]
        assert settings.redis_url is None
        assert settings.providers == ()
        assert settings.message_id_domain is None

    def test_the_documented_table_is_what_load_does(self) -> None:
        settings = load(LEAST)
        attributes = {str(field.alias): name for name, field in Settings.model_fields.items()}

        for variable, default, meaning in table():
            assert meaning.endswith((".", "ambiguous."))
            value = getattr(settings, attributes[variable])
            if default:
                documented = load(LEAST | {variable: default})
                assert getattr(documented, attributes[variable]) == value
            else:
                assert value in (None, (), {}, settings.database_url)

    def test_blank_is_unset(self) -> None:
        assert load(LEAST | {"REDIS_URL": "", "MAILER_BATCH": "  "}) == load(LEAST)

    def test_leases_are_renewed_three_times(self) -> None:
        assert load(LEAST | {"MAILER_LEASE_SECONDS": "12"}).renew_seconds == 4


class TestValues:
    @pytest.mark.parametrize(
        ("text", "seconds"),
        [("45", 45), ("45s", 45), ("90m", 5_400), ("12h", 43_200), ("3d", 259_200), ("3.5 s", 3.5)],
    )
    def test_durations_take_a_unit(self, text: str, seconds: float) -> None:
        settings = load(LEAST | {"MAILER_AMBIGUOUS_WAIT": text})
        assert settings.ambiguous_wait_seconds == seconds

    @pytest.mark.parametrize(
        "text", ["soon", "-5", "1e3", "nan", "inf", "3w", "5 5", "٣", "400d", "9" * 400]
    )
    def test_other_durations_are_refused(self, text: str) -> None:
        assert "90m" in mistakes(LEAST | {"MAILER_MAX_AGE": text})["MAILER_MAX_AGE"]

    @pytest.mark.parametrize("separator", [",", " ", "\n", " , "])
    def test_providers_are_a_list_in_order(self, separator: str) -> None:
        urls = ["smtp://u:p%2Cw@one.example", "file:///var/mail"]
        settings = load(LEAST | {"MAILER_PROVIDERS": separator.join(urls)})
        assert [each.get_secret_value() for each in settings.providers] == urls

    @pytest.mark.parametrize(
        ("sender", "domain"),
        [
            ("app@mail.example", "mail.example"),
            ("App <app@Mail.Example>", "mail.example"),
            ("App <app@bücher.example>", "xn--bcher-kva.example"),
            ("app@localhost", "localhost"),
        ],
    )
    def test_the_message_id_domain_is_the_senders(self, sender: str, domain: str) -> None:
        assert load(LEAST | {"MAILER_FROM": sender}).message_id_domain == domain

    def test_the_message_id_domain_can_be_another(self) -> None:
        given = {"MAILER_FROM": "app@mail.example", "MAILER_MESSAGE_ID_DOMAIN": "id.example"}
        assert load(LEAST | given).message_id_domain == "id.example"

    def test_the_return_path_is_an_address(self) -> None:
        given = {"MAILER_RETURN_PATH": "b" * 18 + "@Bücher.example"}
        assert load(LEAST | given).return_path == "b" * 18 + "@xn--bcher-kva.example"

    @pytest.mark.parametrize("separator", [",", " ", "\n", " , "])
    def test_topics_are_a_list_and_none_is_there_twice(self, separator: str) -> None:
        given = {"MAILER_SNS_TOPIC_ARNS": separator.join([*TOPICS, TOPICS[0]])}
        assert load(LEAST | given).sns_topic_arns == TOPICS

    @pytest.mark.parametrize(("text", "versions"), [("2", "2"), ("2, 1", "1,2"), ("1 2", "1,2")])
    def test_signature_versions_are_a_set(self, text: str, versions: str) -> None:
        given = {"MAILER_SNS_SIGNATURE_VERSIONS": text}
        assert load(LEAST | given).sns_signature_versions == versions

    def test_events_may_have_an_age(self) -> None:
        assert load(LEAST | {"MAILER_EVENT_MAX_AGE": "2h"}).event_max_age_seconds == 7_200

    def test_templates_are_a_folder(self, tmp_path: Path) -> None:
        assert load(LEAST | {"MAILER_TEMPLATES": str(tmp_path)}).templates == tmp_path

    def test_settings_do_not_change(self) -> None:
        with pytest.raises(ValidationError):
            load(LEAST).batch = 1


@pytest.mark.parametrize(
    ("variable", "value", "mend"),
    [
        ("DATABASE_URL", "mysql://h/db", "postgres://"),
        ("DATABASE_URL", "postgres://host", "add /name"),
        ("DATABASE_URL", "postgres:///name", "names no host"),
        ("DATABASE_URL", "postgres://u:p#w@host:x/name", "percent-encode"),
        ("DATABASE_URL", "sqlite://file", "sqlite:///file"),
        ("DATABASE_URL", "sqlite:///", "sqlite:///file"),
        ("REDIS_URL", "http://host", "redis://"),
        ("REDIS_URL", "redis://", "names no host"),
        ("REDIS_URL", "redis://host:99999", "percent-encode"),
        ("MAILER_PROVIDERS", "smtp://one.example relay.example:25", "at entry 2"),
        ("MAILER_PROVIDERS", "smtp://u:pass,word@host", "at entry 1, 2; percent-encode"),
        ("MAILER_FROM", "nobody", "must be an address"),
        ("MAILER_FROM", "a@b.example\r\nBcc: c@d.example", "must be an address"),
        ("MAILER_FROM", "a@b@c.example", "must be an address"),
        ("MAILER_FROM", "a@-.example", "must be an address"),
        ("MAILER_RETURN_PATH", "bounces", "must be an address alone"),
        ("MAILER_RETURN_PATH", "Bounces <b@mail.example>", "must be an address alone"),
        ("MAILER_RETURN_PATH", "b+x@mail.example", "must be an address alone"),
        ("MAILER_RETURN_PATH", "büro@mail.example", "must be an address alone"),
        ("MAILER_RETURN_PATH", "b@-.example", "must be an address alone"),
        ("MAILER_RETURN_PATH", "b" * 19 + "@mail.example", "at most 18 characters"),
        ("MAILER_MESSAGE_ID_DOMAIN", "a b", "must be a domain name"),
        ("MAILER_SECRET", "fifteen-charact", "at least 16"),
        ("MAILER_TEMPLATES", "/no/such/folder", "folder that exists"),
        ("MAILER_BATCH", "many", "whole number"),
        ("MAILER_BATCH", "0", "1"),
        ("MAILER_CONCURRENCY", "-1", "whole number"),
        ("MAILER_MAX_ATTEMPTS", "0", "1"),
        ("MAILER_MAX_RESENDS", "1.5", "whole number"),
        ("MAILER_POLL_SECONDS", "0", "greater than 0"),
        ("MAILER_SHUTDOWN_SECONDS", "23", "22"),
        ("MAILER_MAX_MESSAGE_BYTES", "1023", "1024"),
        ("MAILER_SNS_TOPIC_ARNS", f"{ARN}a {ARN}b.fifo", "at entry 2"),
        ("MAILER_SNS_TOPIC_ARNS", f"{ARN[:-2]}:a", "at entry 1"),
        ("MAILER_SNS_TOPIC_ARNS", "*", "write arn:aws:sns:"),
        ("MAILER_SNS_SIGNATURE_VERSIONS", "1,2,3", "'1', '1,2' or '2'"),
        ("MAILER_SNS_CERTIFICATES", "/no/such/folder", "folder that exists"),
        ("MAILER_EVENT_MAX_AGE", "0", "greater than 0"),
        ("MAILER_SQS_QUEUE_URL", "arn:aws:sqs:eu-west-1:111122223333:q", "must be a queue's URL"),
        ("MAILER_SQS_QUEUE_URL", "https://sqs.eu-west-1.amazonaws.com/", "must be a queue's URL"),
        ("MAILER_SQS_QUEUE_URL", "https://u:p@host/1/q", "no credentials"),
        ("PORT", "65536", "65535"),
        ("PORT", "http", "whole number"),
        ("MAILER_LOG", "xml", "'auto', 'json' or 'text'"),
        ("MAILER_LEASE_SECOND", "60", "did you mean MAILER_LEASE_SECONDS?"),
        ("MAILER_COLOUR_OF_INK", "blue", "remove it"),
    ],
)
def test_a_wrong_value_is_refused_by_name_and_with_the_mend(
    variable: str, value: str, mend: str
) -> None:
    found = mistakes(LEAST | {variable: value})
    assert list(found) == [variable]
    assert mend in found[variable]


@pytest.mark.parametrize(
    ("environ", "variable", "mend"),
    [
        ({"MAILER_LEASE_SECONDS": "2.9", "MAILER_BATCH": "1"}, "MAILER_LEASE_SECONDS", "3 s"),
        ({"MAILER_POLL_SECONDS": "60"}, "MAILER_POLL_SECONDS", "60 s"),
        ({"MAILER_BATCH": "97", "MAILER_LEASE_SECONDS": "3"}, "MAILER_BATCH", "lower it to 96"),
        ({"MAILER_RETRY_BASE": "2h"}, "MAILER_RETRY_CAP", "7200 s"),
        ({"MAILER_MAX_AGE": "59"}, "MAILER_MAX_AGE", "60 s"),
    ],
)
def test_what_cannot_work_together_is_refused(
    environ: dict[str, str], variable: str, mend: str
) -> None:
    found = mistakes(LEAST | environ)
    assert list(found) == [variable]
    assert mend in found[variable]


def test_what_just_works_together_is_taken() -> None:
    edge = {"MAILER_LEASE_SECONDS": "3", "MAILER_BATCH": "96", "MAILER_MAX_AGE": "3"}
    assert load(LEAST | edge | {"MAILER_RETRY_BASE": "1h"}).batch == 96


class TestRoles:
    def test_a_worker_needs_the_means_to_send(self) -> None:
        needs = {"MAILER_PROVIDERS", "MAILER_FROM", "MAILER_SECRET"}
        assert set(mistakes(LEAST, role="worker")) == needs
        assert load(WORKER, role="worker").sender == WORKER["MAILER_FROM"]

    def test_an_application_needs_what_a_message_id_is_made_of(self) -> None:
        needs = {"MAILER_SECRET", "MAILER_MESSAGE_ID_DOMAIN"}
        assert set(mistakes(LEAST, role="application")) == needs
        del (given := dict(WORKER))["MAILER_PROVIDERS"]
        assert load(given, role="application").message_id_domain == "mail.example"

    def test_the_web_process_needs_a_database_alone(self) -> None:
        assert list(mistakes({}, role="web")) == ["DATABASE_URL"]
        assert load(LEAST, role="web").port == 8_000

    def test_a_consumer_needs_a_queue_and_who_may_speak_through_it(self) -> None:
        needs = {"DATABASE_URL", "MAILER_SQS_QUEUE_URL", "MAILER_SNS_TOPIC_ARNS"}
        assert set(mistakes({}, role="consumer")) == needs

    def test_a_database_in_memory_is_nothing_for_a_worker(self) -> None:
        memory = WORKER | {"DATABASE_URL": "sqlite:///:memory:"}
        assert list(mistakes(memory, role="worker")) == ["DATABASE_URL"]
        assert load(memory, role="application")

    def test_a_wrong_value_is_not_called_missing_as_well(self) -> None:
        found = mistakes(
            WORKER | {"MAILER_FROM": "nobody", "MAILER_SECRET": "short"}, role="worker"
        )
        assert set(found) == {"MAILER_FROM", "MAILER_SECRET"}
        assert not any("not set" in text for text in found.values())


def test_every_mistake_is_in_the_one_message() -> None:
    found = mistakes(
        {
            "REDIS_URL": "http://host",
            "MAILER_BATCH": "many",
            "MAILER_LEASE_SECONDS": "2",
            "MAILER_POLL_SECONDS": "5",
            "MAILER_PROVDERS": "smtp://host",
        },
        role="worker",
    )
    assert set(found) == {
        "DATABASE_URL",
        "REDIS_URL",
        "MAILER_BATCH",
        "MAILER_LEASE_SECONDS",
        "MAILER_POLL_SECONDS",
        "MAILER_PROVDERS",
        "MAILER_PROVIDERS",
        "MAILER_FROM",
        "MAILER_SECRET",
    }


def test_what_a_provider_says_of_its_url_is_in_the_message_too() -> None:
    def problems(url: str) -> list[str]:
        return ["unknown parameter colour"] if "colour" in url else []

    two = LEAST | {"MAILER_PROVIDERS": "smtp://one.example smtp://two.example?colour=red"}
    with pytest.raises(SettingsError, match="MAILER_PROVIDERS: entry 2: unknown parameter colour"):
        load(two, provider_problems=problems)


@pytest.mark.parametrize(
    "variable",
    ["MAILER_TESTS_X", "MAILER_PROCESSES", "MAILER_ADMIN_PASSWORD"],
)
def test_variables_of_other_parts_are_left_alone(variable: str) -> None:
    assert load(LEAST | {variable: "x"}) == load(LEAST)


@given(
    variable=st.sampled_from([name for name, _, _ in table()]),
    before=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12),
    after=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12),
)
def test_no_message_repeats_a_value(variable: str, before: str, after: str) -> None:
    # A worker without providers is refused, whatever else is right.
    with pytest.raises(SettingsError) as caught:
        load(
            LEAST | {variable: f"{before}{CANARY}{after}", "MAILER_NONSENSE": CANARY}, role="worker"
        )
    assert CANARY not in str(caught.value)
    assert caught.value.__cause__ is None


def test_no_repr_shows_a_secret() -> None:
    secret = WORKER | {
        "DATABASE_URL": f"postgres://u:{CANARY}@h/db",
        "REDIS_URL": f"redis://:{CANARY}@h",
        "MAILER_PROVIDERS": f"smtp://u:{CANARY}@h",
        "MAILER_SECRET": CANARY * 2,
        "MAILER_FROM": f"{CANARY}@mail.example",
    }
    assert CANARY not in repr(load(secret, role="worker"))


class TestFile:
    def test_the_environment_goes_before_the_file(self, tmp_path: Path) -> None:
        file = tmp_path / ".env"
        file.write_text("DATABASE_URL=postgres://u:a$b${c}@h/db\nMAILER_BATCH=5\n")

        settings = load({"MAILER_BATCH": "6"}, env_file=file)

        assert settings.batch == 6
        assert settings.database_address == "postgres://u:a$b${c}@h/db"

    def test_the_process_environment_and_the_working_folder_are_the_default(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / ".env").write_text("MAILER_BATCH=5\n")
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("DATABASE_URL", LEAST["DATABASE_URL"])

        assert load().batch == 5
        assert load(LEAST).batch == 200

    def test_the_example_file_is_right_once_the_secret_is_filled_in(self) -> None:
        example = Path(__file__).parents[2] / ".env.example"
        settings = load({"MAILER_SECRET": "x" * 16}, role="worker", env_file=example)
        assert settings.providers[0].get_secret_value().startswith("file:")


def test_an_application_pays_for_no_settings_source_it_does_not_use() -> None:
    loaded = "import sys, mailer.settings; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", loaded], capture_output=True, text=True, check=True
    )
    assert not {"dotenv", "idna", "structlog", "dramatiq"} & set(done.stdout.split())


def test_streams_may_name_their_own_providers() -> None:
    settings = load(
        WORKER | {"MAILER_STREAM_BULK": "smtp://bulk.example:587 smtp://other.example:587"},
        role="worker",
    )
    (urls,) = settings.stream_orders.values()
    assert list(settings.stream_orders) == ["bulk"]
    assert [each.get_secret_value() for each in urls] == [
        "smtp://bulk.example:587",
        "smtp://other.example:587",
    ]


def test_a_streams_mistake_is_told_by_its_variable() -> None:
    found = mistakes(WORKER | {"MAILER_STREAM_BULK": "nowhere"}, role="worker")
    assert list(found) == ["MAILER_STREAM_BULK"]
    assert "entry 1" in found["MAILER_STREAM_BULK"]
