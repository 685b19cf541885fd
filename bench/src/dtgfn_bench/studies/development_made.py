"""Generated tables of the development suite: one trait of data each, always the same rows."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pandas

from dtgfn._support.arrays import Floats

Made = tuple[pandas.DataFrame, pandas.Series]
# of a board of nine squares
LINES = ((0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6))


def _frame(X: Floats) -> pandas.DataFrame:
    return pandas.DataFrame(X).add_prefix("x")


def _toss(rng: np.random.Generator, log_odds: Floats) -> pandas.Series:
    """Labels of two classes with these log odds."""
    return pandas.Series(rng.random(len(log_odds)) < 1 / (1 + np.exp(-log_odds)))


def _effects(X: Floats) -> Floats:
    """A sum of a line, a step, a bump and a wave in the first four columns."""
    bump = np.exp(-4 * X[:, 2] ** 2)
    return 1.5 * X[:, 0] + 2.0 * (X[:, 1] > 0.3) - 2.0 * bump + np.sin(3 * X[:, 3])


@cache
def _endings(board: str, player: str) -> frozenset[str]:
    """Boards on which a game that stands at this one can end."""
    if any(board[a] == board[b] == board[c] != "b" for a, b, c in LINES) or "b" not in board:
        return frozenset({board})
    other = "o" if player == "x" else "x"
    moves = [at for at in range(9) if board[at] == "b"]
    ends = (_endings(board[:at] + player + board[at + 1 :], other) for at in moves)
    return frozenset().union(*ends)


def tic_tac_toe() -> Made:
    """The 958 boards on which a game can end, x first to move: does x have three in a row?"""
    boards = np.array([list(board) for board in sorted(_endings("b" * 9, "x"))], dtype=object)
    won = np.any([(boards[:, line] == "x").all(axis=1) for line in LINES], axis=0)
    return _frame(boards), pandas.Series(won)


def sum_of_effects() -> Made:
    """Two classes whose log odds add up over columns."""
    rng = np.random.default_rng(11)
    X = rng.normal(size=(2000, 10))
    return _frame(X), _toss(rng, 1.5 * _effects(X))


def parity() -> Made:
    """Whether an odd number of three columns is positive, one label in ten flipped."""
    rng = np.random.default_rng(12)
    X = rng.normal(size=(1500, 8))
    odd = (X[:, :3] > 0).sum(axis=1) % 2 == 1
    return _frame(X), pandas.Series(odd ^ (rng.random(1500) < 0.1))


def correlated() -> Made:
    """Twenty-four noisy views of three hidden numbers, two of which make three classes."""
    rng = np.random.default_rng(13)
    hidden = rng.normal(size=(800, 3))
    X = hidden @ rng.normal(size=(3, 24)) + 0.5 * rng.normal(size=(800, 24))
    angle = np.arctan2(hidden[:, 1], hidden[:, 0])
    return _frame(X), pandas.Series(np.digitize(angle, [-1.0, 1.0]))


def noisy_labels() -> Made:
    """A box in two of six columns, three labels in ten flipped."""
    rng = np.random.default_rng(14)
    X = rng.random((1000, 6))
    inside = (np.abs(X[:, :2] - 0.5) < 0.3).all(axis=1)
    return _frame(X), pandas.Series(inside ^ (rng.random(1000) < 0.3))


def one_in_forty() -> Made:
    """A rare class whose log odds add up over columns."""
    rng = np.random.default_rng(15)
    X = rng.normal(size=(4000, 8))
    return _frame(X), _toss(rng, 1.2 * _effects(X) - 5.5)


def nine_classes() -> Made:
    """Nine stretched clouds in six columns."""
    rng = np.random.default_rng(16)
    y = rng.integers(0, 9, 1800)
    stretch = rng.normal(size=(9, 6, 6)) / 1.5
    centre, around = 1.5 * rng.normal(size=(9, 6)), rng.normal(size=(1800, 6))
    X = centre[y] + np.einsum("nij,nj->ni", stretch[y], around)
    return _frame(X), pandas.Series(y)


def skewed_columns() -> Made:
    """Heavy-tailed columns over many scales; the ratio of two of them matters."""
    rng = np.random.default_rng(17)
    X = np.exp(1.5 * rng.normal(size=(1200, 8)) + rng.normal(size=8) * 4)
    log = np.log(X) - np.log(X).mean(axis=0)
    return _frame(X), _toss(rng, 1.2 * (log[:, 0] - log[:, 1]) + (log[:, 2] > 1.0))


def wide_classes() -> Made:
    """Two hundred columns, five of which matter."""
    rng = np.random.default_rng(18)
    X = rng.normal(size=(400, 200))
    return _frame(X), _toss(rng, 1.2 * X[:, :5].sum(axis=1))


def _words(rng: np.random.Generator, n: int) -> tuple[pandas.DataFrame, Floats]:
    """Columns of words and numbers with holes, and an effect of them all."""
    town, kind, size = rng.integers(0, 60, n), rng.integers(0, 5, n), rng.normal(size=n)
    effect = rng.normal(size=60)[town] + np.array([0.0, 1, 1, -1, 2])[kind] + size * (kind == 2)
    frame = pandas.DataFrame(
        {
            "town": [f"town {t}" for t in town],
            "kind": pandas.Series(np.array(list("abcde"), dtype=object)[kind]),
            "size": size,
            "noise": rng.normal(size=n),
        }
    )
    frame.loc[rng.random(n) < 0.15, "kind"] = None
    frame.loc[rng.random(n) < 1 / (1 + np.exp(-size)) * 0.4, "size"] = np.nan
    return frame, effect


def mixed_classes() -> Made:
    """Words with many values, and holes where a number is large."""
    rng = np.random.default_rng(19)
    frame, effect = _words(rng, 1500)
    return frame, _toss(rng, 1.5 * effect)


def additive() -> Made:
    """A sum of functions of four columns among ten."""
    rng = np.random.default_rng(21)
    X = rng.normal(size=(1000, 10))
    return _frame(X), pandas.Series(_effects(X) + 0.7 * rng.normal(size=1000))


def products() -> Made:
    """Products of columns, which alone say nothing."""
    rng = np.random.default_rng(22)
    X = rng.normal(size=(1500, 8))
    y = X[:, 0] * X[:, 1] + X[:, 2] * (X[:, 3] > 0) + 0.4 * rng.normal(size=1500)
    return _frame(X), pandas.Series(y)


def uneven_noise() -> Made:
    """Noise that grows twentyfold along a column."""
    rng = np.random.default_rng(23)
    X = rng.random((1200, 6))
    noise = np.exp(3 * X[:, 1] - 2) * rng.normal(size=1200)
    return _frame(X), pandas.Series(3 * np.sin(5 * X[:, 0]) + noise)


def heavy_tails() -> Made:
    """Steps and noise with rare huge errors."""
    rng = np.random.default_rng(24)
    X = rng.random((800, 6))
    y = 3.0 * (X[:, 0] > 0.5) + 2.0 * (X[:, 1] > 0.7) * X[:, 2] + 0.5 * rng.standard_t(2.5, 800)
    return _frame(X), pandas.Series(y)


def wide_numbers() -> Made:
    """Two hundred columns, six of which matter."""
    rng = np.random.default_rng(25)
    X = rng.normal(size=(350, 200))
    y = X[:, :4].sum(axis=1) + 2.0 * (X[:, 4] > 0) * (X[:, 5] > 0) + rng.normal(size=350)
    return _frame(X), pandas.Series(y)


def mixed_numbers() -> Made:
    """Words with many values, holes, and a target over several scales."""
    rng = np.random.default_rng(26)
    frame, effect = _words(rng, 2000)
    return frame, pandas.Series(np.exp(0.8 * effect + 0.4 * rng.normal(size=2000)))


MADE_CLASSES: dict[str, Callable[[], Made]] = {
    "tic-tac-toe": tic_tac_toe,
    "sum of effects": sum_of_effects,
    "parity": parity,
    "correlated": correlated,
    "noisy labels": noisy_labels,
    "one in forty": one_in_forty,
    "nine classes": nine_classes,
    "skewed columns": skewed_columns,
    "wide classes": wide_classes,
    "mixed classes": mixed_classes,
}
MADE_NUMBERS: dict[str, Callable[[], Made]] = {
    "additive": additive,
    "products": products,
    "uneven noise": uneven_noise,
    "heavy tails": heavy_tails,
    "wide numbers": wide_numbers,
    "mixed numbers": mixed_numbers,
}
