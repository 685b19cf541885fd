"""The loop that trains the torch rivals, and the TabTransformer that it trains."""

import numpy as np
import pytest
import torch
from dtgfn_bench.rivals import tab_transformer
from dtgfn_bench.rivals.network_training import (
    Schedule,
    as_columns,
    log_probability,
    split_by_class,
    train,
)
from torch import nn


def blobs(n=60):
    generator = np.random.default_rng(0)
    codes = np.arange(n) % 2
    X = generator.normal(size=(n, 3)) + 4 * codes[:, None]
    return X, codes


def schedule(**changes):
    common = {"learning_rate": 0.05, "weight_decay": 0.0, "batch_size": 16, "patience": 5}
    return Schedule(**{**common, "epochs": 30, **changes})


def test_standardised_by_training_rows_only():
    X = np.array([[0.0, 7.0], [2.0, 7.0]])
    np.testing.assert_allclose(as_columns(X)(X).numpy(), [[-1, 0], [1, 0]])
    np.testing.assert_allclose(as_columns(X)(np.array([[5.0, 8.0]])).numpy(), [[4, 1]])


def test_split_holds_out_a_fifth_of_each_class():
    labels = torch.tensor([0] * 20 + [1] * 9 + [2] * 2)
    kept, validation = split_by_class(labels)
    assert sorted([*kept.tolist(), *validation.tolist()]) == list(range(31))
    assert labels[validation].bincount(minlength=3).tolist() == [4, 1, 0]


def test_split_of_too_few_rows_keeps_them_all():
    kept, validation = split_by_class(torch.tensor([0, 1, 1]))
    assert sorted(kept.tolist()) == sorted(validation.tolist()) == [0, 1, 2]


def test_training_learns_what_is_easy():
    X, codes = blobs()
    fitted = train(lambda: nn.Linear(3, 2), as_columns(X), X, codes, 1, schedule())
    assert np.mean(fitted.predict_proba(X).argmax(axis=1) == codes) > 0.95


def test_labels_that_say_nothing_stop_training_early():
    X, _ = blobs()
    epochs = []

    class Counted(nn.Linear):
        def train(self, mode=True):
            epochs.extend([1] * mode)
            return super().train(mode)

    codes = np.random.default_rng(1).integers(0, 2, len(X))
    train(lambda: Counted(3, 2), as_columns(X), X, codes, 1, schedule(epochs=500))
    assert len(epochs) < 500


def test_members_are_averaged_as_probabilities():
    class Members(nn.Module):
        def forward(self, inputs):
            return inputs

    probability = torch.tensor([[[0.9, 0.1], [0.5, 0.5]]])
    averaged = log_probability(Members(), probability.log()).exp()
    torch.testing.assert_close(averaged, torch.tensor([[0.7, 0.3]]))


def test_quantile_categories_are_balanced_and_open_ended():
    X = np.random.default_rng(0).normal(size=(80, 2))
    categories = tab_transformer.QuantileCategories(X, 8)
    for column in categories(X).T:
        assert column.bincount(minlength=8).tolist() == [10] * 8
    assert categories(np.array([[-1e9, 1e9]])).tolist() == [[0, 7]]


def test_embedding_shares_the_columns_part():
    embedding = tab_transformer.ColumnEmbedding(n_columns=2, n_categories=3)
    vectors = embedding(torch.tensor([[0, 0], [2, 0]]))
    assert vectors.shape == (2, 2, 32)
    assert torch.equal(vectors[0, 0, :4], vectors[1, 0, :4])
    assert not torch.equal(vectors[0, 0, 4:], vectors[1, 0, 4:])
    assert torch.equal(vectors[0, 1], vectors[1, 1])
    assert not torch.equal(vectors[0, 0], vectors[0, 1])


def test_attention_lets_columns_speak_to_each_other():
    """Another category in one column changes the other column's vector."""
    network = tab_transformer.categorical_network(2, 3, 2).eval()
    before_flattening = network[: 1 + tab_transformer.N_LAYERS]
    vectors = before_flattening(torch.tensor([[0, 1], [2, 1]]))
    assert not torch.allclose(vectors[0, 1], vectors[1, 1])


@pytest.mark.parametrize("shift", [0.0, 3.0])
def test_numeric_network_does_not_see_a_shift_common_to_all_columns(shift):
    """LayerNorm works along the row: what all columns have in common is lost."""
    network = tab_transformer.numeric_network(4, 3)
    row = torch.tensor([[0.1, -1.0, 2.0, 0.4]])
    torch.testing.assert_close(network(row + shift), network(row), rtol=1e-3, atol=1e-4)
