"""URLs: what is wrong is said in full, and never with a credential in it."""

import subprocess
import sys

import pytest

from mailer.errors import SettingsError
from providers.catalog import build, problems
from providers.smtp_settings import Mechanism, TlsMode, parse
from tests.ses_endpoint import aws_environment

SECRET = "hunter2"


@pytest.mark.parametrize(
    "url",
    [
        "smtp://user:pass@relay.example:587?tls=starttls",
        "smtp://relay.example?tls=none",
        "smtp://127.0.0.1:2525",
        "smtp://user:pass@localhost:2525",
        "smtp://[::1]:2525?tls=none",
        "smtps://user:p%40ss@relay.example",
        "smtp://relay.example/?tls=starttls&timeout=5&data_timeout=60.5&idle_timeout=10"
        "&max_messages=7",
        "smtps://user:pass@relay.example?auth=cram-md5",
        "file:///tmp/mail",
        "file:///tmp/mail?rate=3",
        "smtps://relay.example?rate=14",
        "ses://eu-west-1",
        "ses://us-gov-west-1/?configuration_set=tx_prod-1&rate=14.5&timeout=20&connect_timeout=3",
        "ses://eu-west-1?endpoint_url=http://127.0.0.1:4579",
    ],
)
def test_good(url: str) -> None:
    assert problems(url) == []


@pytest.mark.parametrize(
    ("url", "named"),
    [
        ("sns://eu-west-1", ["scheme"]),
        ("ses://", ["region"]),
        ("ses://Ireland", ["region"]),
        ("ses://eu-west-1:443", ["region"]),
        ("ses://eu-west-1:x", ["region"]),
        (f"ses://AKID:{SECRET}@eu-west-1", ["AWS_ACCESS_KEY_ID"]),
        ("ses://eu-west-1/main", ["url"]),
        ("ses://eu-west-1?configuration_set=a%20b", ["configuration_set"]),
        ("ses://eu-west-1?configuration_set=", ["configuration_set"]),
        (f"ses://eu-west-1?endpoint_url=http://u:{SECRET}@127.0.0.1", ["endpoint_url"]),
        ("ses://eu-west-1?endpoint_url=ftp://127.0.0.1", ["endpoint_url"]),
        ("ses://eu-west-1?endpoint_url=http://127.0.0.1:x", ["endpoint_url"]),
        ("ses://eu-west-1?timeout=61&connect_timeout=0", ["timeout", "connect_timeout"]),
        ("ses://eu-west-1?rate=0&retries=3", ["retries", "rate"]),
        ("smtps://relay.example?rate=-1", ["rate"]),
        ("smtps://relay.example?rate=fast", ["rate"]),
        ("file:///tmp/mail?rate=1&rate=2", ["rate"]),
        ("file:///tmp/mail#x", ["file"]),
        ("nonsense", ["scheme"]),
        ("smtp://", ["host", "tls"]),
        ("smtp://relay.example:99999?tls=none", ["url"]),
        ("smtp://relay.example:x?tls=none", ["url"]),
        ("smtp://relay.example:0?tls=none", ["port"]),
        ("smtp://rel ay.example?tls=none", ["host"]),
        ("smtp://relay.example", ["tls"]),
        ("smtp://relay.example?tls=maybe", ["tls"]),
        ("smtps://relay.example?tls=starttls", ["tls"]),
        (f"smtp://user:{SECRET}@relay.example?tls=none", ["tls"]),
        (f"smtp://:{SECRET}@relay.example?tls=starttls", ["user"]),
        ("smtp://user@relay.example?tls=starttls", ["password"]),
        ("smtps://relay.example?auth=plain", ["auth"]),
        (f"smtps://user:{SECRET}@relay.example?auth=ntlm", ["auth"]),
        ("smtps://relay.example?ca=/no/such/file.pem", ["ca"]),
        ("smtps://relay.example?timeout=0&data_timeout=soon&idle_timeout=1e3", ["timeout"] * 3),
        ("smtps://relay.example?timeout=99999", ["timeout"]),
        ("smtps://relay.example?max_messages=0", ["max_messages"]),
        ("smtps://relay.example?max_messages=many", ["max_messages"]),
        ("smtps://relay.example?timeout=1&timeout=2", ["timeout"]),
        ("smtps://relay.example?retries=3", ["retries"]),
        (f"smtps://relay.example?{SECRET}%20x=3", ["parameter"]),
        (f"smtps://user:{SECRET}#x@relay.example", ["url"]),
        ("smtps://relay.example/path", ["url"]),
        ("file://folder", ["file"]),
        ("file:///", ["file"]),
        ("file:///tmp/mail?sync=1", ["sync"]),
    ],
)
def test_bad(url: str, named: list[str]) -> None:
    found = problems(url)
    assert len(found) == len(named)
    assert all(name in problem for name, problem in zip(named, found, strict=True))
    assert not any(SECRET in problem for problem in found)
    with pytest.raises(SettingsError) as error:
        build(url, connections=1)
    assert SECRET not in str(error.value)


def test_parsed() -> None:
    settings = parse("smtp://us%3Aer:p%40ss%2F@relay.example?tls=starttls&auth=login")
    assert (settings.user, settings.password) == ("us:er", "p@ss/")
    assert (settings.port, settings.tls, settings.auth) == (587, TlsMode.STARTTLS, Mechanism.LOGIN)
    assert (settings.timeout, settings.data_timeout) == (30.0, 600.0)
    assert "p@ss/" not in repr(settings)


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("smtp://relay.example?tls=none", "smtp:relay.example:25"),
        ("smtp://user:pass@relay.example:2587?tls=starttls", "smtp:relay.example:2587"),
        ("smtps://relay.example", "smtps:relay.example:465"),
        ("file:///tmp/my%20mail", "file:/tmp/my mail"),
        ("ses://eu-west-1", "ses:eu-west-1"),
        ("ses://eu-west-1?configuration_set=main", "ses:eu-west-1/main"),
        (
            "ses://eu-west-1?configuration_set=main&endpoint_url=http://127.0.0.1:4579/x",
            "ses:eu-west-1/main+127.0.0.1:4579",
        ),
    ],
)
def test_names(url: str, name: str) -> None:
    with aws_environment():
        assert build(url, connections=1).name == name


@pytest.mark.parametrize("name", ["two words", "line\r\nbreak", "", "bücher.example"])
def test_a_client_name_that_cannot_be_said(name: str) -> None:
    with pytest.raises(SettingsError, match="local_hostname"):
        build("smtp://127.0.0.1", connections=1, local_hostname=name)


def test_no_connections() -> None:
    with pytest.raises(SettingsError, match="connections"):
        build("smtp://127.0.0.1", connections=0)


def test_an_sdk_is_imported_only_when_it_is_built() -> None:
    program = (
        "import sys\n"
        "from providers.catalog import build, problems\n"
        "problems('smtp://127.0.0.1'), build('file:///tmp/x', connections=1)\n"
        "problems('ses://eu-west-1')\n"
        "assert not {'aiosmtplib', 'boto3', 'botocore'} & set(sys.modules)\n"
        "build('smtp://127.0.0.1', connections=1)\n"
        "assert 'aiosmtplib' in sys.modules and 'boto3' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
