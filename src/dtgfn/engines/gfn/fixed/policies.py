"""Policies that are trained once for all tables: what guesses flows, its weights, its file.

A policy says of a row set that nobody has looked at what deeper trees add to its look-ahead, from
its view (``views.py``). It is compiled, on one thread, so a fit that only draws needs no torch;
training corrects it. Files are in the layout of safetensors: a length, a JSON header, the numbers.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from dtgfn._support.arrays import Float32s, Floats
from dtgfn._support.atomic_write import write_atomically
from dtgfn._support.compiled import INNER, njit
from dtgfn.engines.gfn.fixed.views import N_VIEW, NAMES

SHIPPED = "policy.safetensors"  # in the folder of this file's package
MOST_BYTES = 100_000_000
BLOCK = 16  # rows that go through the layers side by side
MOST_SCORE = 60.0
RIDGE = 10.0
SHARE = 0.2
NEWTON_STEPS = 3


@runtime_checkable
class Policy(Protocol):
    """What guesses the flows of row sets that nobody has looked at, on any table."""

    def guess(self, views: Float32s) -> Float32s:
        """Nats [N], at least 0, that deeper trees add to the look-ahead of row sets [N, V].

        Columns are those of ``dtgfn.engines.view_names()``.
        """


@dataclass(frozen=True)
class MlpPolicy:
    """A small perceptron on views: nats are the square of its last layer's softplus.

    Attributes
    ----------
    mean, spread : float32 [V]
        What inputs are standardised by.
    weights, biases : tuple of float32 [I, O] and [O]
        Of each layer; between layers is SiLU.
    card : dict of str
        What it was trained on, by which code, and what it errs by.

    """

    mean: Float32s
    spread: Float32s
    weights: tuple[Float32s, ...]
    biases: tuple[Float32s, ...]
    card: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_layers(self)

    def guess(self, views: Float32s) -> Float32s:
        """Nats [N] that deeper trees add to the look-ahead of row sets with these views [N, V]."""
        given = np.ascontiguousarray(views, np.float32), self.mean, self.spread
        return run_layers(*given, self.weights, self.biases)  # type: ignore[no-any-return]

    def score(self, views: Float32s) -> Float32s:
        """Last layer [N], before its softplus and square."""
        return np.asarray((self.hidden(views) @ self.weights[-1] + self.biases[-1])[:, 0])

    def hidden(self, views: Float32s) -> Float32s:
        """What the last layer sees [N, H]."""
        x = np.asarray((views - self.mean) / self.spread, np.float32)
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            x = x @ weight + bias
            x /= 1.0 + np.exp(-np.clip(x, -60.0, 60.0))
        return x

    def adapted(self, views: Float32s, nats: Floats, strength: float = RIDGE) -> MlpPolicy:
        """Return the policy with a last layer that fits row sets [N] whose nats are known, too.

        Least squares in nats where they are few and in shares where they are many, with a prior
        of this ``strength`` that the layer is what it was.
        """
        phi = np.pad(self.hidden(views).astype(np.float64), [(0, 0), (0, 1)], constant_values=1.0)
        before = self.score(views).astype(np.float64)
        weight = 1.0 / (1.0 + SHARE * nats)
        change = np.zeros(phi.shape[1])
        for _ in range(NEWTON_STEPS):
            score = np.clip(before + phi @ change, -MOST_SCORE, MOST_SCORE)
            root = softplus(score)
            slope = (phi.T * (2.0 * root / (1.0 + np.exp(-score)) * weight)).T
            missing = (nats - root**2) * weight + slope @ change
            normal = slope.T @ slope + strength * np.eye(change.size)
            change = np.linalg.solve(normal, slope.T @ missing)
        return self.with_last(np.asarray(self.last_layer + change, np.float32))

    @property
    def last_layer(self) -> Float32s:
        """Weights and bias [H + 1] of the last layer."""
        return np.append(self.weights[-1][:, 0], self.biases[-1])

    def with_last(self, layer: Float32s) -> MlpPolicy:
        """Return the policy with other weights and bias [H + 1] of its last layer."""
        weights, biases = (
            (*self.weights[:-1], layer[:-1, None].copy()),
            (*self.biases[:-1], layer[-1:]),
        )
        return replace(self, weights=weights, biases=biases)

    def save(self, path: str | Path) -> None:
        """Write it as a safetensors file."""
        arrays = {"mean": self.mean, "spread": self.spread}
        for i, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            arrays |= {f"layers.{i}.weight": weight, f"layers.{i}.bias": bias}
        write_atomically(Path(path), pack_tensors(arrays, {**self.card, "views": " ".join(NAMES)}))


@njit(cache=True, nogil=True, fastmath={"contract"})
def run_layers(
    views: Float32s,
    mean: Float32s,
    spread: Float32s,
    weights: tuple[Float32s, ...],
    biases: tuple[Float32s, ...],
) -> Float32s:
    """``MlpPolicy.guess`` of BLOCK rows at a time: a library's threads would wait for each other.

    SiLU is by a hyperbolic tangent, as a quotient of polynomials that is right to 1e-6.
    """
    widest = mean.shape[0]
    for weight in weights:
        widest = max(widest, weight.shape[1])
    out = np.empty(views.shape[0], np.float32)
    here = np.zeros((widest, BLOCK), np.float32)
    there = np.zeros((widest, BLOCK), np.float32)
    for first in range(0, views.shape[0], BLOCK):
        n_rows = min(BLOCK, views.shape[0] - first)
        for v in range(mean.shape[0]):
            for r in range(n_rows):
                here[v, r] = (views[first + r, v] - mean[v]) / spread[v]
        for k in range(len(weights)):
            weight, bias = weights[k], biases[k]
            for j in range(weight.shape[1]):
                row = there[j]
                for r in range(BLOCK):
                    row[r] = bias[j]
                for v in range(weight.shape[0]):
                    factor, given = weight[v, j], here[v]
                    for r in range(BLOCK):
                        row[r] += factor * given[r]
                if k < len(weights) - 1:
                    squash(row)
            here, there = there, here
        for r in range(n_rows):
            said = max(here[0, r], np.float32(0.0)) + math.log1p(math.exp(-abs(here[0, r])))
            out[first + r] = said * said
    return out


@njit(**INNER, fastmath={"contract"})
def squash(row: Float32s) -> None:
    """SiLU of BLOCK numbers."""
    one, half = np.float32(1.0), np.float32(0.5)
    for r in range(BLOCK):
        x = min(max(half * row[r], np.float32(-9.0)), np.float32(9.0))
        y = x * x
        top = np.float32(-2.76076847742355e-16) * y + np.float32(2.00018790482477e-13)
        top = top * y + np.float32(-8.60467152213735e-11)
        top = top * y + np.float32(5.12229709037114e-08)
        top = top * y + np.float32(1.48572235717979e-05)
        top = top * y + np.float32(6.37261928875436e-04)
        top = top * y + np.float32(4.89352455891786e-03)
        low = np.float32(1.19825839466702e-06) * y + np.float32(1.18534705686654e-04)
        low = low * y + np.float32(2.26843463243900e-03)
        low = low * y + np.float32(4.89352518554385e-03)
        row[r] *= half * (one + x * top / low)


def softplus(x: Floats | Float32s) -> Any:
    """Log(1 + exp x), without overflow."""
    return np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x)))


def check_layers(policy: MlpPolicy) -> None:
    """Refuse layers that do not fit each other or the views, and numbers that are none."""
    width = N_VIEW
    sizes = [policy.mean.shape, policy.spread.shape]
    fits = sizes == [(width,)] * 2 and len(policy.weights) == len(policy.biases) > 0
    for weight, bias in zip(policy.weights, policy.biases, strict=False):
        fits = fits and weight.ndim == 2 and weight.shape[0] == width
        fits = fits and bias.shape == weight.shape[1:]
        width = weight.shape[-1]
    if not fits or width != 1:
        raise ValueError(
            f"The policy's layers do not fit {N_VIEW} inputs and one output; it was made for other "
            "views, so train one anew."
        )
    arrays = (policy.mean, policy.spread, *policy.weights, *policy.biases)
    if not all(np.isfinite(a).all() for a in arrays) or not (policy.spread > 0).all():
        raise ValueError("The policy's numbers are not all finite; train one anew.")


def load_policy(path: str | Path) -> MlpPolicy:
    """Read a policy that ``MlpPolicy.save`` has written.

    Parameters
    ----------
    path : str or Path
        The file.

    Returns
    -------
    MlpPolicy
        To be given as ``policy=``.

    Examples
    --------
    >>> load_policy("no-such-file")
    Traceback (most recent call last):
    FileNotFoundError: There is no policy file 'no-such-file'.

    """
    if not Path(path).is_file():
        raise FileNotFoundError(f"There is no policy file {str(path)!r}.")
    return read_policy(Path(path).read_bytes(), str(path))


def view_names() -> tuple[str, ...]:
    """Return what the columns of views tell, in order.

    Returns
    -------
    tuple of str
        A name for each column that ``Policy.guess`` is given.

    """
    return NAMES


@cache
def shipped_policy() -> MlpPolicy:
    """Return the policy that comes with this package; its ``card`` says what it was trained on."""
    return read_policy((files(__package__) / SHIPPED).read_bytes(), SHIPPED)


def read_policy(content: bytes, name: str) -> MlpPolicy:
    """Make a policy of a file's bytes; refuse what is none."""
    try:
        arrays, card = unpack_tensors(content)
        n_layers = sum(key.endswith(".weight") for key in arrays)
        views = card.pop("views", "").split()
        layers = [
            (arrays[f"layers.{i}.weight"], arrays[f"layers.{i}.bias"]) for i in range(n_layers)
        ]
        given = (arrays["mean"], arrays["spread"])
    except (KeyError, ValueError) as error:
        raise ValueError(f"{name!r} is no policy file: {error}.") from error
    if views != list(NAMES):
        raise ValueError(
            f"{name!r} was made for other views of row sets than this version's; train one anew, "
            "or use the version that made it."
        )
    return MlpPolicy(*given, tuple(w for w, _ in layers), tuple(b for _, b in layers), card)


def pack_tensors(arrays: Mapping[str, Float32s], card: Mapping[str, str]) -> bytes:
    """Return float32 arrays and texts as a safetensors file."""
    header: dict[str, Any] = {"__metadata__": dict(card)}
    at, parts = 0, []
    for name, array in arrays.items():
        data = np.ascontiguousarray(array, "<f4").tobytes()
        place = [at, at + len(data)]
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": place}
        at += len(data)
        parts.append(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + b"".join(parts)


def unpack_tensors(content: bytes) -> tuple[dict[str, Float32s], dict[str, str]]:
    """Return arrays and texts of a safetensors file; ValueError if it is none."""
    if not 8 <= len(content) <= MOST_BYTES:
        raise ValueError(f"it has {len(content)} bytes")
    size = int.from_bytes(content[:8], "little")
    if size > len(content) - 8:
        raise ValueError("its header is cut off")
    header = json.loads(content[8 : 8 + size])
    if not isinstance(header, dict):
        raise ValueError("its header is no table of tensors")
    card, data = header.pop("__metadata__", {}), content[8 + size :]
    if not isinstance(card, dict) or not all(isinstance(v, str) for v in card.values()):
        raise ValueError("its card is not texts")
    return {name: read_tensor(entry, data) for name, entry in header.items()}, card


def read_tensor(entry: Any, data: bytes) -> npt.NDArray[np.float32]:
    """Return one float32 tensor, by its entry in the header."""
    if not isinstance(entry, dict) or entry.get("dtype") != "F32":
        raise ValueError("a tensor is not of 32 bit numbers")
    shape, place = _counts(entry.get("shape")), _counts(entry.get("data_offsets"))
    if len(place) != 2:
        raise ValueError("a tensor has no place")
    first, last = place
    if not first <= last <= len(data) or last - first != 4 * math.prod(shape):
        raise ValueError("a tensor is cut off")
    return np.frombuffer(data[first:last], "<f4").astype(np.float32).reshape(shape)


def _counts(value: Any) -> list[int]:
    if not isinstance(value, list) or not all(isinstance(n, int) and n >= 0 for n in value):
        raise ValueError("a tensor has no shape or place")
    return value
