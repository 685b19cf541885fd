"""A leaf model of one's own that cannot work is refused with the function's name."""

import math

import pytest

from dtgfn import infer, tree_text
from dtgfn.trees.custom_leaf import CustomLeaf

X, Y = [[1.0], [2.0], [8.0], [9.0]] * 5, [0.0, 1.0, 9.0, 8.0] * 5
EXACT = {"engine": "exact", "max_depth": 1, "n_thresholds": 3, "n_jobs": 1}


def add_row(sums, target, weight, numbers):
    sums[0] += weight
    sums[1] += weight * target


def log_marginal(sums, numbers):
    return -math.log(1.0 + sums[1])


def write_mean(sums, numbers, out):
    out[0] = sums[1] / sums[0]


def row_mass(sums, numbers):
    return sums[0]


def leaf(n_sums=2, n_outputs=1, **changed):
    functions = {
        "add_row": add_row,
        "log_marginal": log_marginal,
        "write_outputs": write_mean,
        "row_mass": row_mass,
    }
    return CustomLeaf(n_sums, n_outputs, **{**functions, **changed})


def test_sums_beyond_the_last_are_refused_before_they_are_written():
    with pytest.raises(ValueError, match=r"add_row of a CustomLeaf with n_sums=1.*out of bounds"):
        leaf(n_sums=1)


def test_numbers_beyond_the_last_are_refused():
    with pytest.raises(ValueError, match=r"log_marginal .* 0 numbers fails.*out of bounds"):
        leaf(log_marginal=lambda sums, numbers: numbers[0])


def test_a_function_of_other_arguments_is_refused():
    with pytest.raises(ValueError, match=r"row_mass .* fails: .*positional argument"):
        leaf(row_mass=lambda sums: sums[0])


@pytest.mark.parametrize("name", ["n_sums", "n_outputs"])
def test_nothing_to_know_or_say_is_refused(name):
    with pytest.raises(ValueError, match=f"{name}=0 is out of range"):
        leaf(**{name: 0})


def test_what_numba_cannot_compile_is_named():
    with pytest.raises(ValueError, match="numba cannot compile log_marginal"):
        infer(
            X,
            Y,
            leaf=leaf(log_marginal=lambda sums, numbers: sorted([sums[0]], key=id)[0]),
            **EXACT,
        )


def test_dividing_by_an_empty_leaf_is_no_error(capfd):
    posterior = infer(X, Y, leaf=leaf(), split_penalty=0.0, **EXACT)
    assert "rows)" in tree_text(posterior)
    assert capfd.readouterr().err == ""


def no_number(sums, numbers):
    return math.nan if 0.0 < sums[0] < 15.0 else -sums[1]


def endless(sums, numbers):
    return math.inf if sums[1] > 50.0 else 0.0


def nothing_for_nothing(sums, numbers):
    return sums[1] / sums[0]


@pytest.mark.parametrize("function", [no_number, endless])
@pytest.mark.parametrize("engine", ["exact", "smc", "mcmc", "gfn"])
def test_a_log_marginal_that_is_no_number_is_refused(engine, function):
    settings = {**EXACT, "engine": engine, "split_penalty": 0.0, "random_state": 0}
    with pytest.raises(ValueError, match="log_marginal of a CustomLeaf gives nan or inf"):
        infer(X, Y, leaf=leaf(log_marginal=function), **settings)


def test_of_no_rows_a_log_marginal_may_be_anything():
    def careful(sums, numbers):
        return sums[1] / sums[0] if sums[0] > 0.0 else 0.0

    posteriors = [
        infer(X, Y, leaf=leaf(log_marginal=f), **EXACT) for f in (nothing_for_nothing, careful)
    ]
    assert posteriors[0].log_evidence == posteriors[1].log_evidence
    assert tree_text(posteriors[0]) == tree_text(posteriors[1])
