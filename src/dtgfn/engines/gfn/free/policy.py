"""The forward policy: which networks give stop, leaf, feature and threshold their probabilities.

With l the leaves of a state s, open ones being those with a valid split, and f, j a leaf's valid
features and cuts::

    P_F(stop | s)      = sigmoid(g(s)),  or 1 where nothing is valid
    P_F(l, f, j | s)   = (1 - P_F(stop | s)) * P(l | s) * P(f | l) * P(j | l, f)

    P(l | s) = softmax over open leaves of a(h_l)         h_l: split network on l's padded path
    P(f | l) = softmax over valid f of     b_f(h_l)
    P(j | l, f) = softmax over valid j of  w_j . (h_l * gate_f) + bias_fj

    "mlp" (the paper):  h_l = MLP(path_l),  g(s) = MLP(mean over l of token(path_l), number of l)
                        (the token is the first hidden layer of the stop network, 64 units)
    "set_transformer":  h_l = attention among the leaf tokens,  g(s) = linear(mean over l of h_l)

The threshold head is a d x t x hidden tensor of low rank: its cost grows with d + t, not d * t.
The state flow is log F(s) = log R(s) / temperature + c(s), so that c = 0 means: nothing to gain by
going on. g and c are two outputs of one network.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from dtgfn.engines.gfn.hooks import LeafPaths, NetworkFactory, PathNetwork, Sizes, View, hook_name

FEATURE_WIDTH = 16  # of the embedding of a split's feature, at most
VALUE_WIDTH = 3  # threshold, side, present
TOKEN_WIDTH = 64  # of what a leaf adds to the summary of a state
N_HEADS, N_LAYERS = 4, 2  # of the set transformer


class PathInput(nn.Module):
    """A padded path as one vector [M, D * (feature embedding + 3)]."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        width = min(sizes.n_features, FEATURE_WIDTH)
        self.feature = nn.Embedding(sizes.n_features + 1, width, padding_idx=0)
        self.width = sizes.path_length * (width + VALUE_WIDTH)

    def forward(self, paths: LeafPaths) -> Tensor:
        """Vectors [M, width]."""
        return torch.cat([self.feature(paths.feature), paths.value], dim=2).flatten(1)


def dense(sizes: Sequence[int]) -> nn.Sequential:
    """Linear layers, each followed by a ReLU."""
    layers: list[nn.Module] = []
    for n_in, n_out in pairwise(sizes):
        layers += [nn.Linear(n_in, n_out), nn.ReLU()]
    return nn.Sequential(*layers)


class RuleHeads(nn.Module):
    """Feature logits of a leaf, and threshold logits given the feature."""

    def __init__(self, sizes: Sizes, width: int) -> None:
        super().__init__()
        self.feature = nn.Linear(width, sizes.n_features)
        self.gate = nn.Embedding(sizes.n_features, width)
        self.cut = nn.Linear(width, sizes.n_cuts)
        self.cut_bias = nn.Embedding(sizes.n_features, sizes.n_cuts)
        nn.init.normal_(self.gate.weight, mean=1.0, std=0.5)
        nn.init.zeros_(self.cut_bias.weight)

    def features(self, hidden: Tensor) -> Tensor:
        """Logits [A, d] of leaves [A, H]."""
        return self.feature(hidden)

    def cuts(self, hidden: Tensor, feature: Tensor) -> Tensor:
        """Logits [A, t] of leaves [A, H] given the chosen feature [A]."""
        return self.cut(hidden * self.gate(feature)) + self.cut_bias(feature)


class MlpPolicy(nn.Module):
    """The paper's policy: one MLP for the stop, a second one on each leaf's path for the rest."""

    def __init__(self, sizes: Sizes, hidden: Sequence[int]) -> None:
        super().__init__()
        self.path_length = sizes.path_length
        self.paths = PathInput(sizes)
        self.split = dense([self.paths.width, *hidden])
        self.leaf = nn.Linear(hidden[-1], 1)
        self.rule = RuleHeads(sizes, hidden[-1])
        self.token = dense([self.paths.width, TOKEN_WIDTH])
        self.stop = dense([TOKEN_WIDTH + 1, *(hidden[1:] or hidden)])
        self.stop_heads = nn.Linear(hidden[-1], 2)

    def embed(self, paths: LeafPaths) -> tuple[Tensor, ...]:
        """What is known of a leaf from its path: token [M, W], h_l [M, H] and leaf logit [M]."""
        vectors = self.paths(paths)
        where = paths.is_open.nonzero().squeeze(1)
        hidden = self.split(vectors.index_select(0, where))
        return (
            self.token(vectors),
            hidden.new_zeros(len(vectors), hidden.shape[1]).index_copy(0, where, hidden),
            hidden.new_zeros(len(vectors)).index_copy(0, where, self.leaf(hidden).squeeze(1)),
        )

    def view(self, embeddings: tuple[Tensor, ...], leaves: Tensor) -> View:
        """Look at states given as leaves [S, L], which are indices into ``embeddings`` or -1."""
        token, hidden, leaf_logit = embeddings
        present = leaves >= 0
        n_leaves = present.sum(dim=1)
        start = n_leaves.cumsum(0) - n_leaves
        mean = functional.embedding_bag(leaves[present], token, start, mode="mean")
        size = n_leaves.to(mean.dtype).log2() / self.path_length
        logits = self.stop_heads(self.stop(torch.cat([mean, size[:, None]], dim=1)))
        by_leaf = leaf_logit.index_select(0, leaves.clamp(min=0).flatten()).view(leaves.shape)
        return View(
            stop_logit=logits[:, 0],
            log_gain=logits[:, 1],
            leaf_logit=by_leaf,
            hidden=lambda state, slot: hidden.index_select(0, leaves[state, slot]),
        )


class SetPolicy(nn.Module):
    """Set transformer (Lee et al. 2019): leaf tokens attend to each other, in no order."""

    def __init__(self, sizes: Sizes, hidden: Sequence[int]) -> None:
        super().__init__()
        self.paths = PathInput(sizes)
        self.token = nn.Sequential(
            dense([self.paths.width, hidden[0]]), nn.Linear(hidden[0], TOKEN_WIDTH)
        )
        layer = nn.TransformerEncoderLayer(
            TOKEN_WIDTH, N_HEADS, 2 * TOKEN_WIDTH, dropout=0.0, batch_first=True, norm_first=True
        )
        self.attention = nn.TransformerEncoder(layer, N_LAYERS, enable_nested_tensor=False)
        self.leaf = nn.Linear(TOKEN_WIDTH, 1)
        self.rule = RuleHeads(sizes, TOKEN_WIDTH)
        self.stop_heads = nn.Linear(TOKEN_WIDTH, 2)

    def embed(self, paths: LeafPaths) -> tuple[Tensor, ...]:
        """What is known of a leaf from its path alone: token [M, W]."""
        return (self.token(self.paths(paths)),)

    def view(self, embeddings: tuple[Tensor, ...], leaves: Tensor) -> View:
        """Look at states given as leaves [S, L], which are indices into ``embeddings`` or -1."""
        present = leaves >= 0
        tokens = (
            embeddings[0].index_select(0, leaves.clamp(min=0).flatten()).view(*leaves.shape, -1)
        )
        hidden = self.attention(tokens, src_key_padding_mask=~present)
        mean = (hidden * present[:, :, None]).sum(dim=1) / present.sum(dim=1)[:, None]
        logits = self.stop_heads(mean)
        return View(
            stop_logit=logits[:, 0],
            log_gain=logits[:, 1],
            leaf_logit=self.leaf(hidden).squeeze(2),
            hidden=lambda state, slot: hidden[state, slot],
        )


ARCHITECTURES: dict[str, NetworkFactory] = {
    "mlp": MlpPolicy,
    "set_transformer": SetPolicy,
}


def check_network(policy: PathNetwork, sizes: Sizes) -> None:
    """Rehearse a policy of one's own on three nodes and two states; refuse what does not fit."""
    name = hook_name(policy)
    try:
        found = rehearse(policy, sizes)
    except (RuntimeError, IndexError, TypeError, AttributeError) as error:
        raise ValueError(
            f"policy {name} does not fit this table, of {sizes}: {str(error).splitlines()[0]} "
            "(see dtgfn.engines.PathNetwork)."
        ) from error
    for part, (tensor, wanted) in found.items():
        if tuple(tensor.shape) != wanted:
            raise ValueError(
                f"policy {name} does not fit this table: {part} gives {list(tensor.shape)} where "
                f"{list(wanted)} is needed (see dtgfn.engines.PathNetwork)."
            )


def rehearse(policy: PathNetwork, sizes: Sizes) -> dict[str, tuple[Tensor, tuple[int, ...]]]:
    """Return what each part of a policy gives, and of which shape that should be."""
    d, t, length = sizes.n_features, sizes.n_cuts, sizes.path_length
    device = next(policy.parameters()).device  # type: ignore[attr-defined]
    feature = torch.zeros(3, length, dtype=torch.int64, device=device)
    value = torch.zeros(3, length, 3, device=device)
    feature[1:, 0], value[1:, 0, 2] = 1, 1.0
    value[1, 0, 1], value[2, 0, 1] = -1.0, 1.0
    is_open = torch.tensor([True, False, True], device=device)
    leaves = torch.tensor([[0, -1], [1, 2]], device=device)
    state, slot = torch.tensor([1, 0], device=device), torch.tensor([1, 0], device=device)
    with torch.no_grad():
        known = policy.embed(LeafPaths(feature, value, is_open))
        if not isinstance(known, tuple) or not all(len(part) == 3 for part in known):
            raise TypeError("embed must give a tuple of tensors with a row for each node")
        view = policy.view(known, leaves)
        hidden = view.hidden(state, slot)
        return {
            "view's stop_logit": (view.stop_logit, (2,)),
            "view's log_gain": (view.log_gain, (2,)),
            "view's leaf_logit": (view.leaf_logit, (2, 2)),
            "rule.features": (policy.rule.features(hidden), (2, d)),
            "rule.cuts": (policy.rule.cuts(hidden, torch.zeros_like(state)), (2, t)),
        }


class NodeEmbeddings:
    """What ``embed`` said of all nodes so far, kept while trees grow (no gradients)."""

    def __init__(self) -> None:
        self._parts: tuple[Tensor, ...] = ()
        self._size = 0

    def add(self, new: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Append nodes and return all of them."""
        size = self._size + len(new[0])
        if not self._parts:
            self._parts = new
        elif size > len(self._parts[0]):
            spare = tuple(part.new_empty((2 * size, *part.shape[1:])) for part in new)
            for part, old in zip(spare, self._parts, strict=True):
                part[: self._size] = old[: self._size]
            self._parts = spare
        for part, rows in zip(self._parts, new, strict=True):
            part[self._size : size] = rows
        self._size = size
        return tuple(part[:size] for part in self._parts)
