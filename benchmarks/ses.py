"""SES calls per second through the provider, beside bare boto3 with the same threads.

`python -m benchmarks.ses --calls 3000 --rounds 3`: in turns, each in a process of its own, against
the same local endpoint, which is a process too.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass

import boto3
import uvloop
from botocore.config import Config

from benchmarks.messages import content
from benchmarks.report import Mark, close, parser, table
from mailer.outcome import Outcome
from mailer.provider import Addressee, Call
from providers import catalog

WARM_UP_CALLS = 200

_SENDER = "shop@example.com"
_AWS = {
    "AWS_ACCESS_KEY_ID": "fake",
    "AWS_SECRET_ACCESS_KEY": "fake",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "NO_PROXY": "*",
}


@dataclass(frozen=True)
class Round:
    """One measured run of one contestant; CPU time is microseconds a call."""

    calls_per_second: float
    cpu_us: float


def main() -> None:
    """Measure in turns and report; or be a contestant."""
    options = _options()
    if options.contestant:
        taken = CONTESTANTS[options.contestant](options.url, options.calls, options.threads)
        print(json.dumps(asdict(taken)))
        return
    rounds: dict[str, list[Round]] = {name: [] for name in CONTESTANTS}
    with _endpoint() as url:
        for number in range(options.rounds):
            # Whoever goes first in one round goes second in the next.
            for name in sorted(CONTESTANTS, reverse=bool(number % 2)):
                rounds[name].append(_run(name, url, options))
    _report(rounds, options)


def _options() -> argparse.Namespace:
    made = parser(__doc__)
    made.add_argument("--calls", type=int, default=3_000)
    made.add_argument("--rounds", type=int, default=3)
    made.add_argument("--threads", type=int, default=8)
    made.add_argument("--contestant", choices=CONTESTANTS, help=argparse.SUPPRESS)
    made.add_argument("--url", help=argparse.SUPPRESS)
    return made.parse_args()


@contextmanager
def _endpoint() -> Iterator[str]:
    with subprocess.Popen(
        [sys.executable, "-m", "benchmarks.ses_endpoint"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.communicate()


def _run(name: str, url: str, options: argparse.Namespace) -> Round:
    given = ("--calls", options.calls, "--threads", options.threads, "--url", url)
    command = [sys.executable, "-m", "benchmarks.ses", "--contestant", name, *map(str, given)]
    kept = {k: v for k, v in os.environ.items() if not k.startswith("AWS_")}
    done = subprocess.run(
        command, env={**kept, **_AWS}, stdout=subprocess.PIPE, text=True, check=True
    )
    return Round(**json.loads(done.stdout))


def _bare(url: str, calls: int, threads: int) -> Round:
    client = boto3.client(
        "sesv2",
        region_name="eu-west-1",
        endpoint_url=url,
        config=Config(max_pool_connections=threads),
    )
    ready = content(1)

    def send(number: int) -> None:
        client.send_email(
            FromEmailAddress=_SENDER,
            Destination={"ToAddresses": [f"u{number}@example.com"]},
            Content={"Raw": {"Data": ready}},
            EmailTags=[
                {"Name": "mailer-outbox", "Value": str(number)},
                {"Name": "mailer-attempt", "Value": f"tag-{number}"},
            ],
        )

    def share(numbers: Iterator[int]) -> None:
        for number in numbers:
            send(number)

    with ThreadPoolExecutor(threads) as pool:

        def send_all(count: int) -> None:
            numbers = iter(range(count))
            for each in [pool.submit(share, numbers) for _ in range(threads)]:
                each.result()

        send_all(WARM_UP_CALLS)
        return _measured(lambda: send_all(calls), calls)


def _provider(url: str, calls: int, threads: int) -> Round:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        provider = catalog.build(f"ses://eu-west-1?endpoint_url={url}", connections=threads)
        ready = content(1)

        async def share(numbers: Iterator[int]) -> None:
            for number in numbers:
                result = await provider.send(_call(number, ready))
                assert result.outcome is Outcome.ACCEPTED, result.rule

        async def send_all(count: int) -> None:
            numbers = iter(range(count))
            await asyncio.gather(*(share(numbers) for _ in range(threads)))

        runner.run(send_all(WARM_UP_CALLS))
        taken = _measured(lambda: runner.run(send_all(calls)), calls)
        runner.run(provider.close())
        return taken


def _call(number: int, ready: bytes) -> Call:
    to = (Addressee(number, f"u{number}@example.com"),)
    return Call(number, number, f"tag-{number}", _SENDER, to, ready, lambda: None)


def _measured(work: Callable[[], None], calls: int) -> Round:
    cpu, began = time.process_time(), time.perf_counter()
    work()
    took, used = time.perf_counter() - began, time.process_time() - cpu
    return Round(calls / took, used / calls * 1e6)


CONTESTANTS: Mapping[str, Callable[[str, int, int], Round]] = {
    "bare boto3": _bare,
    "mailer": _provider,
}


def _report(rounds: Mapping[str, list[Round]], options: argparse.Namespace) -> None:
    medians = {
        name: Round(
            statistics.median(each.calls_per_second for each in of),
            statistics.median(each.cpu_us for each in of),
        )
        for name, of in rounds.items()
    }
    rows = [
        (name, f"{each.calls_per_second:,.0f}", f"{each.cpu_us:,.0f}")
        for name, each in medians.items()
    ]
    lines = [
        f"{options.calls:,} calls of {len(content(1)):,} octets, {options.threads} threads, "
        f"medians of {options.rounds}",
        *table(("", "calls/s", "CPU µs a call"), rows),
    ]
    ratio = medians["mailer"].calls_per_second / medians["bare boto3"].calls_per_second
    figures = {name: {"median": asdict(medians[name]), "rounds": [asdict(one) for one in of]}
               for name, of in rounds.items()}  # fmt: skip
    del options.contestant, options.url
    close(
        options,
        {"contestants": figures},
        lines,
        [Mark("SES calls/s, of bare boto3", ratio, 0.8, at_least=True)],
    )


if __name__ == "__main__":
    main()
