"""Walk the protocol and tell: `python -m mailer.prove`; `--tables` for those of the document."""

import sys

from mailer.prove.guards import ALL
from mailer.prove.report import lines, tables
from mailer.prove.trials import fault_without


def main() -> int:
    """Print the report; 1 when an invariant is broken or a missing guard is not caught."""
    if "--tables" in sys.argv[1:]:
        sys.stdout.write(tables({each: fault_without(each) for each in ALL}) + "\n")
        return 0
    bad = False
    for line in lines():
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
        bad = bad or "BROKEN" in line or "NOT CAUGHT" in line
    return int(bad)


if __name__ == "__main__":
    raise SystemExit(main())
