"""``dtgfn show``: a model in words."""

from __future__ import annotations

from dtgfn.cli.console import print_json, say
from dtgfn.cli.messages import in_flags
from dtgfn.cli.models import load_model, with_event
from dtgfn.cli.options import AsJson, Labels, Model, Positive


def show(
    model: Model, positive: Positive = None, labels: Labels = None, as_json: AsJson = False
) -> None:
    """Show evidence, most probable tree and column use of a model; of a sum its chains.

    Examples:
      dtgfn show model.dtgfn

      dtgfn show model.dtgfn --labels dictionary.csv

      dtgfn show model.dtgfn --json

    """
    from dtgfn.cli.summary import summarise, summary_text

    summary = summarise(with_event(load_model(model, labels), positive))
    if as_json:
        print_json(summary)
    else:
        say(summary_text(summary, phrase=in_flags))
