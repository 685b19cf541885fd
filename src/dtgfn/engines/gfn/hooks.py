"""Parts of one's own: what may be put in the place of a part of the GFlowNet, and its shapes.

An own part is a setting (``objective``, ``loss``, ``architecture``, ``exploration``,
``allowed``) or the ``policy`` of ``infer``; docs/extend.md has an example of each. Nothing here
imports torch, whose tensors are ``Tensor``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from dtgfn._support.arrays import Bools, Floats, Int32s, Int64s

if TYPE_CHECKING:
    from torch import Tensor

CHOICES = ("stop", "leaf", "feature", "cut")


# What is learned from.


@dataclass(frozen=True)
class Residuals:
    """Balance residuals of B trajectories with at most K transitions each.

    Attributes
    ----------
    delta : [B, K]
        Residual of each transition, with gradient; 0 where there is none. The first one of a
        trajectory holds log Z, so the sum over a row is the trajectory's residual.
    mask : bool [B, K]
        Which transitions exist.
    end : int64 [B, K] or None
        Transitions i..end-1 belong together: the part of the tree below a decision (fixed order).
        None when the trajectory is a chain and every stretch i..j belongs together (free order).

    """

    delta: Tensor
    mask: Tensor
    end: Tensor | None = None


class LossShape(Protocol):
    """How far residuals are from zero; given as ``loss``."""

    def __call__(self, residual: Tensor, /) -> Tensor:
        """Loss of each residual, of the same shape, with gradient; 0 at 0."""


class ObjectiveLoss(Protocol):
    """What is descended; given as ``objective``, alone or in an ``Objective``."""

    def __call__(self, residuals: Residuals, shape: LossShape, /) -> Tensor:
        """One number, with gradient, that is least where all residuals vanish."""


@dataclass(frozen=True)
class Objective:
    """A loss and what it implies.

    Attributes
    ----------
    loss : function (residuals, shape) -> Tensor
        See ``ObjectiveLoss``.
    with_flows : bool
        Whether it looks at states between start and end: without, only the sums of residuals over
        a trajectory mean anything, which is cheaper to have.
    learns_log_z : bool
        Whether log Z has a gradient; without, it is set to the batch's guess.

    """

    loss: Callable[[Residuals, Any], Tensor]
    with_flows: bool = True
    learns_log_z: bool = True


# Networks of the free order.


@dataclass(frozen=True)
class Sizes:
    """What the shapes of a network depend on.

    Attributes
    ----------
    n_features, n_cuts, path_length : int
        Features d, cuts t of the feature that has most, and splits D of the longest path.

    """

    n_features: int
    n_cuts: int
    path_length: int


@dataclass(frozen=True)
class LeafPaths:
    """Root-to-leaf paths of M nodes, padded to D entries.

    Attributes
    ----------
    feature : int64 [M, D]
        1 + feature of each split, 0 where there is none.
    value : float32 [M, D, 3]
        Scaled threshold, side (-1 left, 1 right), present (0 or 1).
    is_open : bool [M]
        Which nodes have a valid split: only they need a split network.

    """

    feature: Tensor
    value: Tensor
    is_open: Tensor


@dataclass(frozen=True)
class View:
    """What the policy says about S states.

    Attributes
    ----------
    stop_logit, log_gain : [S]
        g and c of the state: P(stop) = sigmoid(g), and c is what going on adds to its log flow.
    leaf_logit : [S, L]
        Logit of each leaf, whatever its mask.
    hidden : function (state [A], slot [A]) -> [A, H]
        What feature and threshold of a leaf follow from.

    """

    stop_logit: Tensor
    log_gain: Tensor
    leaf_logit: Tensor
    hidden: Callable[[Tensor, Tensor], Tensor]


class RuleNetwork(Protocol):
    """Which rule a leaf is split by."""

    def features(self, hidden: Tensor, /) -> Tensor:
        """Logits [A, d] of leaves [A, H]."""

    def cuts(self, hidden: Tensor, feature: Tensor, /) -> Tensor:
        """Logits [A, t] of leaves [A, H] given the chosen feature [A]."""


class PathNetwork(Protocol):
    """A forward policy of the free order, a torch module; given as ``policy``."""

    rule: Any  # a RuleNetwork

    def embed(self, paths: LeafPaths, /) -> tuple[Tensor, ...]:
        """What is known of M nodes from their paths alone: tensors [M, ...]."""

    def view(self, embeddings: tuple[Tensor, ...], leaves: Tensor, /) -> View:
        """Look at states given as leaves [S, L], which are indices into ``embeddings`` or -1."""


class NetworkFactory(Protocol):
    """Makes a policy for a table; given as ``architecture``."""

    def __call__(self, sizes: Sizes, hidden: Sequence[int], /) -> Any:
        """Return a ``PathNetwork`` with fresh weights; ``hidden`` is the setting of that name."""


# What may be done, and what is tried.


@dataclass(frozen=True)
class NodePaths:
    """The splits above M nodes, from the root on, padded to D entries.

    Attributes
    ----------
    feature, cut : int64 [M, D]
        What each split looks at, and after which code it cuts; -1 where there is none.
    side : int64 [M, D]
        -1 left, 1 right, 0 where there is none.
    depth : int32 [M]
        Splits above each node.
    column : int32 [d]
        Source column of each feature; those of one categorical column share it.

    """

    feature: Int64s
    cut: Int64s
    side: Int64s
    depth: Int32s
    column: Int32s


class ActionRule(Protocol):
    """An MDP variant: which features a node may be split on; given as ``allowed``.

    It may look at the path alone, so that a node is judged alike whatever else grows. The target is
    R among the trees that it allows.
    """

    def __call__(self, paths: NodePaths, /) -> Bools:
        """Whether each feature may split each node: bool [M, d]."""


class ExplorationRule(Protocol):
    """Which actions are tried while training; given as ``exploration``.

    An action is drawn in up to four choices, ``CHOICES``, one below the other.
    """

    def __call__(self, choice: str, log_p: Floats, n_actions: Int64s, epsilon: float, /) -> Floats:
        """Weights [A, W], at least 0, by which the options of a choice are drawn.

        ``log_p`` [A, W] is the policy's, ``n_actions`` [A, W] how many valid actions lie behind an
        option: where it is 0 the option is not valid, log_p is -inf, and the weight must be 0.
        ``epsilon`` is what the settings say at this step.
        """


def hook_name(hook: object) -> str:
    """Name a part of one's own, for sentences and files."""
    named = hook if hasattr(hook, "__qualname__") else type(hook)
    return f"{named.__module__}.{named.__qualname__}"  # type: ignore[attr-defined]


def lasting_name(setting: str, hook: object) -> str:
    """Name a part so that a later process finds the same one; refuse what has no such name."""
    name = hook_name(hook)
    if not hasattr(hook, "__qualname__") or "<" in name:
        raise ValueError(
            f"{setting}={name} cannot be told from others by a checkpoint; give a function or a "
            "class at the top of a module, or no checkpoint."
        )
    return name
