"""Topics' names, and what follows from one: where its certificate lies, and whom it names."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

_SUFFIXES: Mapping[str, str] = {
    "aws": "amazonaws.com",
    "aws-cn": "amazonaws.com.cn",
    "aws-us-gov": "amazonaws.com",
    "aws-eusc": "amazonaws.eu",
    "aws-iso": "c2s.ic.gov",
    "aws-iso-b": "sc2s.sgov.gov",
    "aws-iso-e": "cloud.adc-e.uk",
    "aws-iso-f": "csp.hci.ic.gov",
}
"""Where each partition's services live (botocore's `partitions.json`, `dnsSuffix`)."""

_GLOBAL_SIGNER = "sns.amazonaws.com"
_SIGNED_GLOBALLY = (
    *("ap-northeast-1", "ap-northeast-2", "ap-northeast-3", "ap-south-1"),
    *("ap-southeast-1", "ap-southeast-2", "ca-central-1", "eu-central-1", "eu-north-1"),
    *("eu-west-1", "eu-west-2", "eu-west-3", "sa-east-1"),
    *("us-east-1", "us-east-2", "us-west-1", "us-west-2"),
)
_SIGNED_BY_THEMSELVES = (
    *("af-south-1", "ap-east-1", "ap-east-2", "ap-south-2"),
    *("ap-southeast-3", "ap-southeast-4", "ap-southeast-5", "ap-southeast-6", "ap-southeast-7"),
    *("ca-west-1", "eu-central-2", "eu-south-1", "eu-south-2", "il-central-1"),
    *("me-central-1", "me-south-1", "mx-central-1"),
)
_SIGNERS: Mapping[str, str] = {
    **dict.fromkeys(_SIGNED_GLOBALLY, _GLOBAL_SIGNER),
    **{region: f"sns-signing.{region}.amazonaws.com" for region in _SIGNED_BY_THEMSELVES},
    "cn-north-1": "sns-cn-north-1.amazonaws.com.cn",
    "cn-northwest-1": "sns-cn-northwest-1.amazonaws.com.cn",
    "us-gov-west-1": "sns-us-gov-west-1.amazonaws.com",
    "us-gov-east-1": "sns-us-gov-west-1.amazonaws.com",
    "eusc-de-east-1": "sns-signing.eusc-de-east-1.amazonaws.eu",
}
"""The name in each region's certificate (the SNS message manager of AWS's SDK for Java 2)."""

_ARN = re.compile(
    r"arn:(?P<partition>[a-z-]+):sns:(?P<region>[a-z]{2,8}(?:-[a-z]{1,16}){1,3}-[0-9]{1,2})"
    r":(?P<account>[0-9]{12}):(?P<name>[A-Za-z0-9_-]{1,256}(?:\.fifo)?)"
)


@dataclass(frozen=True, slots=True)
class TopicArn:
    """The parts of a standard topic's name; `account` has twelve digits."""

    partition: str
    region: str
    account: str
    name: str

    @property
    def suffix(self) -> str:
        """The domain under which the topic's partition has its services."""
        return _SUFFIXES[self.partition]


def parse_topic_arn(text: str) -> TopicArn:
    """Read `arn:<partition>:sns:<region>:<account>:<name>`.

    Raises ValueError, with a sentence that names the mend, for anything that is not the ARN of a
    standard topic of a known partition.
    """
    found = _ARN.fullmatch(text)
    if found is None:
        raise ValueError("not a topic's ARN; write arn:aws:sns:<region>:<12 digits>:<name>")
    arn = TopicArn(**found.groupdict())
    if arn.name.endswith(".fifo"):
        raise ValueError("a FIFO topic, to which SES does not publish; name a standard topic")
    if arn.partition not in _SUFFIXES:
        raise ValueError(f"an unknown partition; known are {', '.join(_SUFFIXES)}")
    return arn


def certificate_url_pattern(arn: TopicArn) -> re.Pattern[str]:
    """Return what the URL of this topic's signing certificate matches in full.

    The host is that of the topic's own region, and no wildcard: `sns.s3-us-west-2.amazonaws.com`
    is a bucket that anybody may have made.
    """
    host = re.escape(f"sns.{arn.region}.{arn.suffix}")
    return re.compile(rf"https://{host}/SimpleNotificationService-[0-9a-f]{{32}}\.pem")


def signer_names(arn: TopicArn) -> frozenset[str]:
    """Return the names of which the certificate carries one.

    A region younger than this table signs under the global name or, as all since 2019, its own.
    """
    known = _SIGNERS.get(arn.region)
    return frozenset(
        {known} if known else {_GLOBAL_SIGNER, f"sns-signing.{arn.region}.{arn.suffix}"}
    )
