"""The posterior over trees as an environment for torchgfn, with its exact log Z.

A state is a partial tree of at most ``max_depth`` levels of splits, written into the places of the
complete tree (the children of place p are 2 p + 1 and 2 p + 2)::

    state[p] = 0  no split at p,      state[p] = 1 + r  split by rule r, a feature and a cut
    action    = p * n_rules + r  splits the leaf at p,      the last action exits

Rows decide what is valid, as everywhere in this package: at least one training row on each side.
So torchgfn's samplers and losses can be held against the sum over all trees.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from dtgfn._support.arrays import Bools, Codes, Int32s, Int64s
from dtgfn._support.compiled import njit
from dtgfn.data.tables import as_table
from dtgfn.data.thresholds import Binning
from dtgfn.engines.contract import Run
from dtgfn.engines.registry import find_engine
from dtgfn.inference.training_data import make_training_data, read_target
from dtgfn.posterior.tree_posterior import TreePosterior
from dtgfn.trees.batch import TreeBatch, empty_batch
from dtgfn.trees.leaf_models import DirichletLeaf, LeafModel
from dtgfn.trees.score import Rows, Score, SplitPenalty, log_reward, make_score, merge_rows

try:
    import torch
    from gfn.env import DiscreteEnv
    from gfn.preprocessors import Preprocessor
    from gfn.states import DiscreteStates
except ImportError as error:
    raise ImportError(
        "dtgfn.torchgfn needs torchgfn, which is not installed; docs/torchgfn.md says how to "
        "install it beside dtgfn."
    ) from error

MAX_ACTIONS = 1 << 20  # a mask has one byte for each, in every state


class TreeEnvironment(DiscreteEnv):
    """Trees over the rows of a table, grown one split at a time, for torchgfn.

    Parameters
    ----------
    X, y
        Table and target, as ``dtgfn.infer`` takes them.
    max_depth : int
        Levels of splits.
    n_thresholds : int
        Candidate thresholds of each numeric column.
    binning : {"uniform", "quantile", "midpoint"}
        Where they lie.
    leaf : leaf model or None
        What leaves hold; None for classes.
    leaf_concentration : float
        Dirichlet parameter per class, if ``leaf`` is None.
    split_penalty : "mdl", "paper", float or "bcart"
        Prior over structures.
    temperature : float
        The target is R^(1/temperature).
    sample_weight : array [n] or None
        A weight of 3 counts as three rows.
    device : str or torch.device
        Where states live.
    debug : bool
        Whether torchgfn checks every action.

    Attributes
    ----------
    rows, score
        The problem as the engines of this package see it.
    rules : int64 [R, 2]
        Feature and cut of each rule.
    n_places : int
        Places P of the complete tree, the length of a state.

    """

    def __init__(
        self,
        X: Any,
        y: Any,
        *,
        max_depth: int = 3,
        n_thresholds: int = 9,
        binning: Binning = "uniform",
        leaf: LeafModel | None = None,
        leaf_concentration: float = 0.1,
        split_penalty: SplitPenalty = "mdl",
        temperature: float = 1.0,
        sample_weight: npt.ArrayLike | None = None,
        device: str | torch.device = "cpu",
        debug: bool = False,
    ) -> None:
        table = as_table(X)
        leaf = DirichletLeaf(1, leaf_concentration) if leaf is None else leaf
        data = make_training_data(
            table,
            read_target(y, leaf),
            leaf,
            binning=binning,
            n_thresholds=n_thresholds,
            sample_weight=sample_weight,
        )
        self.rows: Rows = merge_rows(data.rows)
        self.score: Score = make_score(
            data.leaf,
            n_features=table.n_columns,
            n_thresholds=n_thresholds,
            max_depth=max_depth,
            split_penalty=split_penalty,
            temperature=temperature,
        )
        self._column = data.binner.feature_column.astype(np.int32)
        self._n_columns = table.n_columns
        self.rules = valid_rules(self.rows.codes)
        self.n_places = 2**max_depth - 1
        self.n_rules = len(self.rules)
        n_actions = self.n_places * self.n_rules + 1
        if n_actions > MAX_ACTIONS:
            raise ValueError(
                f"max_depth={max_depth} and {self.n_rules} rules make {n_actions:,} actions, more "
                f"than {MAX_ACTIONS:,}; give a smaller max_depth or n_thresholds."
            )
        start = torch.zeros(self.n_places, dtype=torch.int64, device=device)
        super().__init__(n_actions, start, (self.n_places,), debug=debug)

    def make_states_class(self) -> type[DiscreteStates]:
        """States whose masks are computed from the rows.

        Returns
        -------
        type
            A subclass of torchgfn's ``DiscreteStates``.

        """
        env = self
        base = super().make_states_class()

        class TreeStates(base):  # type: ignore[valid-type, misc]
            """Partial trees."""

            def _compute_forward_masks(self) -> torch.Tensor:
                mask = env._on_states(
                    self.tensor, lambda s: forward_masks(s, env.rows.codes, env.rules)
                )
                return mask.reshape(*self.batch_shape, env.n_actions)

            def _compute_backward_masks(self) -> torch.Tensor:
                mask = env._on_states(self.tensor, lambda s: backward_masks(s, env.n_rules))
                return mask.reshape(*self.batch_shape, env.n_actions - 1)

        return TreeStates

    def step(self, states: Any, actions: Any) -> Any:
        """Split a leaf of each state.

        Parameters
        ----------
        states, actions
            Of torchgfn, one action a state and none that exits.

        Returns
        -------
        States
            With one split more each.

        """
        place, rule = self._place_and_rule(actions)
        tensor = states.tensor.scatter(-1, place, rule + 1)
        return self.states_from_tensor(tensor)

    def backward_step(self, states: Any, actions: Any) -> Any:
        """Undo a split of each state.

        Parameters
        ----------
        states, actions
            Of torchgfn, one action a state.

        Returns
        -------
        States
            With one split less each.

        """
        place, _ = self._place_and_rule(actions)
        tensor = states.tensor.scatter(-1, place, torch.zeros_like(place))
        return self.states_from_tensor(tensor)

    def log_reward(self, final_states: Any) -> torch.Tensor:
        """Log R / temperature of trees.

        Parameters
        ----------
        final_states : States
            Trees that exit.

        Returns
        -------
        Tensor
            In torch's default type.

        """
        values = log_reward(self.trees(final_states), self.rows, self.score)
        out = torch.from_numpy(values / self.score.temperature).to(self.device)
        return out.reshape(final_states.batch_shape).to(torch.get_default_dtype())

    def log_partition(self, condition: Any = None) -> float:
        """Log Z: the sum over all trees, computed once by exact inference.

        Parameters
        ----------
        condition : None
            There is none.

        Returns
        -------
        float

        """
        return self.exact.log_evidence

    def exact_trees(self, n_trees: int, rng: np.random.Generator) -> TreeBatch:
        """Draw independent trees from the posterior itself.

        Parameters
        ----------
        n_trees : int
            How many.
        rng : Generator
            Randomness.

        Returns
        -------
        TreeBatch
            ``states_of`` makes states of it.

        """
        assert self.exact.solution is not None, "exact inference can draw"
        return self.exact.solution.sample(n_trees, rng)

    @cached_property
    def exact(self) -> TreePosterior:
        """The exact posterior."""
        engine = find_engine("exact")
        run = Run(column=self._column, n_columns=self._n_columns)
        return engine.infer(self.rows, self.score, run, engine.read_options({}))

    def trees(self, states: Any) -> TreeBatch:
        """Turn states into trees of this package.

        Parameters
        ----------
        states : States
            Any but sink states.

        Returns
        -------
        TreeBatch
            In the order of the flattened states.

        """
        flat = states.tensor.reshape(-1, self.n_places).cpu().numpy()
        batch = empty_batch(len(flat), 2 * self.n_places + 1)
        write_trees(flat, self.rules, batch.feature, batch.cut, batch.left, batch.n_nodes)
        return batch

    def states_of(self, trees: TreeBatch) -> Any:
        """Turn trees, say exact draws, into states.

        Parameters
        ----------
        trees : TreeBatch
            Of this problem: rules that rows part, and no deeper than ``max_depth``.

        Returns
        -------
        States

        """
        number = np.full((self.rows.codes.shape[1], int(self.rows.codes.max()) + 1), -1)
        number[self.rules[:, 0], self.rules[:, 1]] = np.arange(self.n_rules)
        flat = np.zeros((len(trees), self.n_places), np.int64)
        write_states(trees.feature, trees.cut, trees.left, number, flat)
        return self.states_from_tensor(torch.from_numpy(flat).to(self.device))

    def preprocessor(self) -> PlaceByPlace:
        """Describe states for networks.

        Returns
        -------
        Preprocessor
            Its ``output_dim`` is the width that a network gets.

        """
        return PlaceByPlace(self)

    def _place_and_rule(self, actions: Any) -> tuple[torch.Tensor, torch.Tensor]:
        index = actions.tensor
        return index // self.n_rules, index % self.n_rules

    def _on_states(self, tensor: torch.Tensor, function: Any) -> torch.Tensor:
        flat = tensor.reshape(-1, self.n_places).cpu().numpy()
        return torch.from_numpy(function(np.ascontiguousarray(flat))).to(self.device)


class PlaceByPlace(Preprocessor):
    """For each place of the complete tree: which feature it splits on, and where.

    Parameters
    ----------
    env : TreeEnvironment
        Whose states are described.

    """

    def __init__(self, env: TreeEnvironment) -> None:
        n_features = env.rows.codes.shape[1]
        highest = np.maximum(env.rows.codes.max(axis=0), 1)
        feature, cut = env.rules[:, 0], env.rules[:, 1]
        # one row for "no split" and one for each rule: a feature's flag and its scaled threshold
        described = np.zeros((env.n_rules + 1, n_features + 1), np.float32)
        described[np.arange(env.n_rules) + 1, feature] = 1.0
        described[1:, n_features] = 2.0 * (cut + 1) / (highest[feature] + 1) - 1.0
        self.described = torch.from_numpy(described).to(env.device)
        super().__init__(env.n_places * (n_features + 1))

    def preprocess(self, states: Any) -> torch.Tensor:
        """Describe states.

        Parameters
        ----------
        states : States
            Partial trees.

        Returns
        -------
        Tensor
            [..., P * (features + 1)]

        """
        known = states.tensor.clamp(min=0)
        return self.described[known].flatten(start_dim=-2)


def valid_rules(codes: Codes) -> Int64s:
    """All (feature, cut) [R, 2] that part the rows."""
    lowest, highest = codes.min(axis=0).astype(np.int64), codes.max(axis=0).astype(np.int64)
    rules = [(f, j) for f in range(codes.shape[1]) for j in range(lowest[f], highest[f])]
    return np.array(rules, dtype=np.int64).reshape(-1, 2)


@njit(cache=True, nogil=True)
def forward_masks(states: Int64s, codes: Codes, rules: Int64s) -> Bools:
    """Valid actions [B, P * R + 1] of states [B, P]: exit, and rules that part a leaf's rows."""
    n_states, n_places = states.shape
    n_rules, n_features = rules.shape[0], codes.shape[1]
    mask = np.zeros((n_states, n_places * n_rules + 1), np.bool_)
    lowest = np.empty((n_places, n_features), np.int64)
    highest = np.empty((n_places, n_features), np.int64)
    for b in range(n_states):
        mask[b, -1] = True
        state = states[b]
        if n_places == 0 or state[0] < 0:  # the sink
            continue
        lowest[:] = 1 << 20
        highest[:] = -1
        for i in range(codes.shape[0]):
            place = 0
            while place < n_places and state[place] > 0:
                feature, cut = rules[state[place] - 1]
                place = 2 * place + (2 if codes[i, feature] > cut else 1)
            if place < n_places:
                for f in range(n_features):
                    code = np.int64(codes[i, f])
                    lowest[place, f] = min(lowest[place, f], code)
                    highest[place, f] = max(highest[place, f], code)
        for place in range(n_places):
            for r in range(n_rules):
                feature, cut = rules[r]
                if lowest[place, feature] <= cut < highest[place, feature]:
                    mask[b, place * n_rules + r] = True
    return mask


@njit(cache=True, nogil=True)
def backward_masks(states: Int64s, n_rules: int) -> Bools:
    """Splits [B, P * R] of states [B, P] that can be undone: those above two leaves."""
    n_states, n_places = states.shape
    mask = np.zeros((n_states, n_places * n_rules), np.bool_)
    for b in range(n_states):
        for place in range(n_places):
            left = 2 * place + 1
            inner = left < n_places and (states[b, left] > 0 or states[b, left + 1] > 0)
            if states[b, place] > 0 and not inner:
                mask[b, place * n_rules + states[b, place] - 1] = True
    return mask


@njit(cache=True, nogil=True)
def write_trees(
    states: Int64s, rules: Int64s, feature: Int32s, cut: Int32s, left: Int32s, n_nodes: Int32s
) -> None:
    """Write states [B, P] into the arrays of a ``TreeBatch``, node by node."""
    n_states, n_places = states.shape
    place_of = np.empty(feature.shape[1], np.int64)
    for b in range(n_states):
        used, place_of[0] = 1, 0
        for node in range(feature.shape[1]):
            if node >= used:
                break
            place = place_of[node]
            if place < n_places and states[b, place] > 0:
                rule = rules[states[b, place] - 1]
                feature[b, node], cut[b, node], left[b, node] = rule[0], rule[1], used
                place_of[used], place_of[used + 1] = 2 * place + 1, 2 * place + 2
                used += 2
        n_nodes[b] = used


@njit(cache=True, nogil=True)
def write_states(
    feature: Int32s, cut: Int32s, left: Int32s, number: Int64s, states: Int64s
) -> None:
    """Write trees into states [B, P]; ``number`` [d, t] is the rule of a feature and a cut."""
    place_of = np.empty(feature.shape[1], np.int64)
    for b in range(feature.shape[0]):
        place_of[0] = 0
        for node in range(feature.shape[1]):
            if feature[b, node] < 0:
                continue
            place, child = place_of[node], left[b, node]
            states[b, place] = 1 + number[feature[b, node], cut[b, node]]
            place_of[child], place_of[child + 1] = 2 * place + 1, 2 * place + 2
