"""Mails as they come back, in the forms that servers really write; every address is made up."""

from mailer.returnpath import ReturnPath

TAG = "5eed" * 8
PATH = ReturnPath("bounces@mail.example.com", "0123456789abcdef")
VERP = PATH.address(TAG)
ENVELOPE_ID = PATH.envelope_id(TAG)
MESSAGE_ID = "<72e2ghjgdmrmvvlx7fsgsco2w3obe5aq@mail.example.com>"
DATE = "Tue, 10 Mar 2026 12:00:00 +0000"

RETURNED = f"""\
Return-Path: <{VERP}>
Date: Tue, 10 Mar 2026 11:59:00 +0000
From: Shop <shop@mail.example.com>
To: Ann <ann@example.org>
Subject: Your order
Message-ID:
 {MESSAGE_ID}
X-Outbox-Id: 7
X-Outbox-Attempt: 2.{TAG}
"""


def mail(text: str, *, to: str = VERP, head: str = "") -> bytes:
    """A mail to the return path, with CRLF line ends."""
    top = f"From: MAILER-DAEMON@mx.example.net\nTo: {to}\nDate: {DATE}\nSubject: Undelivered\n"
    return (head + top + text).replace("\r\n", "\n").replace("\n", "\r\n").encode()


def report(
    status: str,
    *,
    to: str = VERP,
    head: str = "",
    part: str = "Content-Type: message/delivery-status",
    returned: str = RETURNED,
    returned_type: str = "text/rfc822-headers",
) -> bytes:
    """A multipart/report in its three parts (RFC 6522)."""
    return mail(
        "MIME-Version: 1.0\n"
        'Content-Type: multipart/report; report-type=delivery-status;\n boundary="=_b/1"\n\n'
        "This is a MIME-encapsulated message.\n\n"
        "--=_b/1\nContent-Type: text/plain; charset=us-ascii\n\n"
        "I'm sorry to have to inform you that your message could not be delivered.\n\n"
        f"--=_b/1\n{part}\n\n{status}\n"
        f"--=_b/1\nContent-Type: {returned_type}\n\n{returned}\n"
        "--=_b/1--\n",
        to=to,
        head=head,
    )


def status(
    action: str = "failed",
    code: str = "5.1.1",
    *,
    who: str = "Final-Recipient: rfc822; ann@example.org",
    diagnostic: str = "",
    envelope_id: str = "",
) -> str:
    """The blocks of a report on one recipient."""
    lines = ["Reporting-MTA: dns; mx.example.net"]
    lines += [f"Original-Envelope-Id: {envelope_id}"] if envelope_id else []
    lines += ["Arrival-Date: Tue, 10 Mar 2026 11:59:01 +0000", "", who, f"Action: {action}"]
    lines += [f"Status: {code}"] if code else []
    lines += [f"Diagnostic-Code: {diagnostic}"] if diagnostic else []
    return "\n".join([*lines, ""])


POSTFIX = report(
    f"""Reporting-MTA: dns; relay.example.com
X-Postfix-Queue-ID: 4F1AB2
X-Postfix-Sender: rfc822; {VERP}
Arrival-Date: Tue, 10 Mar 2026 11:59:01 +0000 (UTC)

Final-Recipient: rfc822; annie@forwarded.example
Original-Recipient: rfc822;Ann@example.org
Action: failed
Status: 5.1.1
Remote-MTA: dns; mx.example.org
Diagnostic-Code: smtp; 550 5.1.1 <annie@forwarded.example>: Recipient address
    rejected: User unknown in virtual mailbox table
""",
    head="Return-Path: <>\nAuto-Submitted: auto-replied\n",
)

EXIM = report(
    """Reporting-MTA: dns; exim.example.net

Action: failed
Final-Recipient: rfc822;ann@example.org
Status: 5.0.0
Remote-MTA: dns; mx.example.org
Diagnostic-Code: smtp; 550 5.1.1 No such user here
""",
    head="X-Failed-Recipients: ann@example.org\nAuto-Submitted: auto-replied\n",
    returned_type="message/rfc822",
)

EXCHANGE = report(
    """Reporting-MTA: dns;EX01.corp.example

Final-recipient: RFC822;
 ann@example.org
Action: failed
Status: 5.7.1
Diagnostic-Code: smtp;550 5.7.1 RESOLVER.RST.AuthRequired; authentication required
X-Display-Name: =?utf-8?q?B=C3=BCro?=
""",
    head="X-MS-Exchange-Message-Is-Ndr:\nX-Auto-Response-Suppress: All\n",
    returned_type="message/rfc822",
)

OPENSMTPD = report(
    """Reporting-MTA: dns; osmtpd.example.net

Final-Recipient: rfc822; ann@example.org
Action: error
Status: 5.1.1
"""
)

GMAIL = report(
    """Reporting-MTA: dns; googlemail.example
Received-From-MTA: dns; shop@mail.example.com
Arrival-Date: Tue, 10 Mar 2026 04:59:01 -0700 (PDT)
X-Original-Message-ID: <other@mail.example.com>

Final-Recipient: rfc822; ann@example.org
Action: delayed
Status: 4.4.1
Remote-MTA: dns; mx.example.org. (192.0.2.7, the server for the domain example.org.)
Diagnostic-Code: smtp; The recipient server did not accept our requests to connect.
Last-Attempt-Date: Tue, 10 Mar 2026 05:00:00 -0700 (PDT)
Will-Retry-Until: Fri, 13 Mar 2026 04:59:01 -0700 (PDT)
""",
    head="X-Failed-Recipients: ann@example.org\nAuto-Submitted: auto-replied\n",
    returned_type="message/rfc822",
)

QMAIL = mail(
    f"""
Hi. This is the qmail-send program at qmail.example.net.
I'm afraid I wasn't able to deliver your message to the following addresses.
This is a permanent error; I've given up. Sorry it didn't work out.

<ann@example.org>:
192.0.2.7 does not like recipient.
Remote host said: 550 5.1.1 user unknown

--- Below this line is a copy of the message.

{RETURNED}
Thank you.
"""
)

OLD_EXIM = mail(
    f"""
This message was created automatically by mail delivery software.

A message that you sent could not be delivered to one or more of its
recipients. This is a permanent error. The following address(es) failed:

  ann@example.org
    Unrouteable address

------ This is a copy of the message, including all the headers. ------

{RETURNED}
Thank you.
""",
    head="X-Failed-Recipients: ann@example.org\nAuto-Submitted: auto-replied\n",
)

AWAY = mail(
    """
I am out of the office until Monday.
""",
    head="Auto-Submitted: auto-replied (vacation)\n",
).replace(b"MAILER-DAEMON@mx.example.net", b"ann@example.org")


def complaint(
    fields: str, *, to: str = VERP, returned: str = RETURNED, part: str = "message/feedback-report"
) -> bytes:
    """A feedback report in its three parts (RFC 5965 2)."""
    return mail(
        "MIME-Version: 1.0\n"
        "Content-Type: multipart/report; report-type=feedback-report; boundary=arf\n\n"
        "--arf\nContent-Type: text/plain\n\nThis is an email abuse report.\n\n"
        f"--arf\nContent-Type: {part}\n\n{fields}\n"
        f"--arf\nContent-Type: message/rfc822\n\n{returned}\nThank you.\n\n"
        "--arf--\n",
        to=to,
    )
