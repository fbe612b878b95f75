"""What follows from a topic's name: where its certificate lies and whom that names."""

import re

import pytest

from providers.sns_regions import (
    TopicArn,
    certificate_url_pattern,
    parse_topic_arn,
    signer_names,
)

ARABIC_FILE = "SimpleNotificationService-" + "\N{ARABIC-INDIC DIGIT ZERO}" * 32 + ".pem"
OREGON = "arn:aws:sns:us-west-2:111122223333:mail-events"
FILE = f"SimpleNotificationService-{'0123456789abcdef' * 2}.pem"


@pytest.mark.parametrize(
    ("partition", "region", "host", "signer"),
    [
        ("aws", "eu-west-1", "sns.eu-west-1.amazonaws.com", "sns.amazonaws.com"),
        ("aws", "us-east-1", "sns.us-east-1.amazonaws.com", "sns.amazonaws.com"),
        (
            "aws",
            "eu-south-1",
            "sns.eu-south-1.amazonaws.com",
            "sns-signing.eu-south-1.amazonaws.com",
        ),
        (
            "aws",
            "ap-southeast-7",
            "sns.ap-southeast-7.amazonaws.com",
            "sns-signing.ap-southeast-7.amazonaws.com",
        ),
        (
            "aws-cn",
            "cn-northwest-1",
            "sns.cn-northwest-1.amazonaws.com.cn",
            "sns-cn-northwest-1.amazonaws.com.cn",
        ),
        (
            "aws-us-gov",
            "us-gov-east-1",
            "sns.us-gov-east-1.amazonaws.com",
            "sns-us-gov-west-1.amazonaws.com",
        ),
        (
            "aws-eusc",
            "eusc-de-east-1",
            "sns.eusc-de-east-1.amazonaws.eu",
            "sns-signing.eusc-de-east-1.amazonaws.eu",
        ),
    ],
)
def test_host_and_signer_of_a_region(partition: str, region: str, host: str, signer: str) -> None:
    arn = parse_topic_arn(f"arn:{partition}:sns:{region}:111122223333:mail-events")
    assert certificate_url_pattern(arn).fullmatch(f"https://{host}/{FILE}")
    assert signer_names(arn) == {signer}


def test_a_region_younger_than_the_table() -> None:
    arn = parse_topic_arn("arn:aws:sns:eu-north-9:111122223333:mail-events")
    assert signer_names(arn) == {"sns.amazonaws.com", "sns-signing.eu-north-9.amazonaws.com"}


@pytest.mark.parametrize(
    "url",
    [
        f"https://sns.us-west-2.amazonaws.com.evil.example/{FILE}",
        f"https://sns.us-west-2.amazonaws.com@evil.example/{FILE}",
        f"https://user@sns.us-west-2.amazonaws.com/{FILE}",
        f"http://sns.us-west-2.amazonaws.com/{FILE}",
        f"HTTPS://sns.us-west-2.amazonaws.com/{FILE}",
        f"https://bucket.s3.us-west-2.amazonaws.com/{FILE}",
        f"https://sns.s3-us-west-2.amazonaws.com/{FILE}",
        f"https://sns.s3-accelerate.amazonaws.com/{FILE}",
        f"https://sns.us-west-1.amazonaws.com/{FILE}",
        f"https://sns.us-west-2.amazonaws.com.cn/{FILE}",
        f"https://sns.us-west-2.amazonaws.eu/{FILE}",
        f"https://sns.us-west-2xamazonaws.com/{FILE}",
        "https://sns.us-west-2.amazonaws.com/?Action=ListTopics&x=.pem",
        f"https://sns.us-west-2.amazonaws.com/{FILE}?x=.pem",
        f"https://sns.us-west-2.amazonaws.com/{FILE}#x.pem",
        f"https://sns.us-west-2.amazonaws.com:8443/{FILE}",
        f"https://sns.us-west-2.amazonaws.com:443/{FILE}",
        f"https://sns.us-west-2.amazonaws.com/x/../{FILE}",
        f"https://sns.us-west-2.amazonaws.com//{FILE}",
        f"https://sns.us-west-2.amazonaws.com\\@evil.example/{FILE}",
        f"https://sns.us-west-2.amazonaws.com。evil.example/{FILE}",
        f"https://sns.us-west-2.amazonaws.com/{FILE}\n",
        f"\nhttps://sns.us-west-2.amazonaws.com/{FILE}",
        f"https://sns.us-west-2.amazonaws.com/{ARABIC_FILE}",
        f"https://sns.us-west-2.amazonaws.com/{FILE.replace('0', '')}",
        f"https://sns.us-west-2.amazonaws.com/{FILE.upper()}",
        "",
    ],
)
def test_a_foreign_certificate_url(url: str) -> None:
    assert certificate_url_pattern(parse_topic_arn(OREGON)).fullmatch(url) is None


def test_parts_of_an_arn() -> None:
    expected = TopicArn("aws", "us-west-2", "111122223333", "mail-events")
    assert parse_topic_arn(OREGON) == expected


@pytest.mark.parametrize(
    ("text", "mend"),
    [
        ("", "not a topic's ARN"),
        ("mail-events", "not a topic's ARN"),
        (f"{OREGON}\n", "not a topic's ARN"),
        (f" {OREGON}", "not a topic's ARN"),
        (f"{OREGON}:2bcf0000-0000-4000-8000-000000000001", "not a topic's ARN"),
        ("arn:aws:sqs:us-west-2:111122223333:mail-events", "not a topic's ARN"),
        ("arn:aws:sns:us-west-2:11112222333:mail-events", "not a topic's ARN"),
        ("arn:aws:sns:us-west-2:11112222333٣:mail-events", "not a topic's ARN"),
        ("arn:aws:sns::111122223333:mail-events", "not a topic's ARN"),
        ("arn:aws:sns:evil.example/-1:111122223333:mail-events", "not a topic's ARN"),
        ("arn:aws:sns:us-west-2:111122223333:*", "not a topic's ARN"),
        (f"arn:aws:sns:us-west-2:111122223333:{'x' * 257}", "not a topic's ARN"),
        ("arn:aws-moon:sns:us-west-2:111122223333:mail-events", "unknown partition"),
        (f"{OREGON}.fifo", "FIFO"),
    ],
)
def test_what_is_no_topic(text: str, mend: str) -> None:
    with pytest.raises(ValueError, match=re.escape(mend)):
        parse_topic_arn(text)
