"""`python -m mailer.demo` is `mailer demo`."""

import sys

from mailer.demo import main

if __name__ == "__main__":
    sys.exit(main())
