"""Numbers of draws as ``arviz.InferenceData``: chains by draws."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt

from dtgfn._support.arrays import Array


def inference_data(
    variables: dict[str, Array],
    chain: npt.ArrayLike,
    dims: dict[str, list[str]],
    coords: dict[str, list[Any]],
) -> Any:
    """Make an ``arviz.InferenceData`` of variables whose first axis is draws [K, ...].

    ``chain`` [K] says which chain a draw comes from. ArviZ wants chains of equal length: of longer
    ones the last draws are left out.
    """
    arviz = _import_arviz()
    of_chain = [np.flatnonzero(np.asarray(chain) == c) for c in np.unique(chain)]
    length = min(map(len, of_chain))
    pick = np.stack([draws[:length] for draws in of_chain])
    posterior = {name: np.asarray(values)[pick] for name, values in variables.items()}
    used = {axis for axes in dims.values() for axis in axes}
    known = {axis: places for axis, places in coords.items() if axis in used}
    return arviz.from_dict(posterior=posterior, dims=dims, coords=known)


def _import_arviz() -> Any:
    try:
        with warnings.catch_warnings():  # it announces its next version to all who import it
            warnings.simplefilter("ignore", FutureWarning)
            import arviz
    except ImportError as error:
        raise ImportError("to_arviz needs ArviZ: pip install 'dtgfn[arviz]'.") from error
    return arviz
