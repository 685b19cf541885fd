"""What holds for every test: profiles of hypothesis, and signals as a terminal sends them."""

import signal
from importlib.util import find_spec

from hypothesis import HealthCheck, settings

# The page shows a method of one's own in the bench, which need not be installed.
collect_ignore = [] if find_spec("dtgfn_bench") else ["docs/reproduction.md"]
# An environment of torchgfn, which no extra can install beside this package.
collect_ignore += [] if find_spec("gfn") else ["src/dtgfn/torchgfn.py"]

# No example is timed: a busy machine is no failure.
ANY_SPEED = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}

# By `--hypothesis-profile`; what a test makes of max_examples is in tests/helpers/thoroughness.py.
settings.register_profile("quick", max_examples=25, derandomize=True, **ANY_SPEED)
settings.register_profile("long", max_examples=500, derandomize=True, **ANY_SPEED)  # of .ci/run
settings.register_profile("search", max_examples=2000, print_blob=True, **ANY_SPEED)  # other ones
settings.load_profile("quick")


def pytest_configure() -> None:
    """Hear Ctrl-C: a shell starts jobs in the background deaf to it, and with them every child."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
