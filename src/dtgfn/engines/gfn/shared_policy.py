"""Which policy for all tables a fit begins from, if any."""

from __future__ import annotations

from dtgfn.engines.gfn.fixed.policies import MlpPolicy as MlpPolicy
from dtgfn.engines.gfn.fixed.policies import Policy as Policy
from dtgfn.engines.gfn.fixed.policies import load_policy as load_policy
from dtgfn.engines.gfn.fixed.policies import shipped_policy as shipped_policy
from dtgfn.engines.gfn.fixed.policies import view_names as view_names
from dtgfn.engines.gfn.settings import Settings

SHIPPED, FRESH = "shipped", "fresh"


def check_shared(given: object, settings: Settings) -> None:
    """Refuse a policy for all tables that is none, or that nothing would ask."""
    if isinstance(given, str) and given not in (SHIPPED, FRESH):
        raise ValueError(
            f"policy={given!r} is not known; give {SHIPPED!r}, {FRESH!r}, or a policy such as "
            "dtgfn.engines.load_policy reads."
        )
    asked = given == SHIPPED or callable(getattr(given, "guess", None))
    if asked and not settings.remembers:
        raise ValueError(
            f"policy={given!r} guesses flows that are remembered: that needs leaf_order='fixed' "
            f"and objective='db', not {settings.leaf_order!r} and {settings.objective!r}; give "
            f"policy={FRESH!r}."
        )


def find_shared(given: object, settings: Settings) -> Policy | None:
    """Return the policy for all tables that a fit begins from; None to begin from nothing.

    ``given`` is a name, such a policy, or what was trained on other rows, which goes on from the
    one that it began from.
    """
    if not settings.remembers:
        return None
    if given == SHIPPED:
        return shipped_policy()
    if callable(getattr(given, "guess", None)):
        return given  # type: ignore[return-value]
    return getattr(getattr(given, "sampler", None), "shared", None)
