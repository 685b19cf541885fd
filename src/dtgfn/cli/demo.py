"""``dtgfn demo``: the posterior of an embedded table."""

from __future__ import annotations

import typer

from dtgfn.cli.console import print_json, show_progress
from dtgfn.cli.options import AsJson


def demo(as_json: AsJson = False) -> None:
    """Fit Iris exactly and show the posterior.

    Example: dtgfn demo
    """
    from sklearn.datasets import load_iris
    from sklearn.metrics import accuracy_score, log_loss
    from sklearn.model_selection import train_test_split

    from dtgfn.estimators import DTGFNClassifier
    from dtgfn.summary import summarise, summary_text

    iris = load_iris(as_frame=True)
    names = iris.target_names[iris.target]
    X, X_test, y, y_test = train_test_split(iris.data, names, test_size=0.2, random_state=1)
    if not as_json:
        typer.echo(
            "Iris: 120 training rows, 30 held out. Summing over every tree of depth <= 3 with 99\n"
            "thresholds per column (the first run compiles, which takes about a minute) ...\n"
        )
    model = DTGFNClassifier(
        inference="exact", max_depth=3, random_state=1, verbose=show_progress(as_json)
    ).fit(X, y)
    probability = model.predict_proba(X_test)
    held_out = {
        "accuracy": float(accuracy_score(y_test, model.classes_[probability.argmax(axis=1)])),
        "log_loss": float(log_loss(y_test, probability, labels=model.classes_)),
    }
    summary = {**summarise(model), "held_out": held_out}
    if as_json:
        print_json(summary)
        return
    typer.echo(summary_text(summary))
    typer.echo(
        f"\nHeld-out rows, averaged over all trees: accuracy {held_out['accuracy']:.3f}, "
        f"log loss {held_out['log_loss']:.3f}\n\n"
        "Your own table:  dtgfn fit data.csv --target y --max-depth 3 --out model.dtgfn"
    )
