"""Asks torch on the CPU for the norms of the cases in ``torch_cases.py``, and stores what it says in ``torch.npz``.

Run by hand, where torch is installed (`pip install torch==2.13.0+cpu`); the tests need the file alone:

    PYTHONPATH=. python tests/numba_norms/vectors/make_torch.py            writes the file
    PYTHONPATH=. python tests/numba_norms/vectors/make_torch.py --check    asks again; exit status 1 if a bit differs
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from tests.numba_norms.vectors.torch_cases import CASES, STORE, Case, packed, stored_part


def ask(case: Case) -> dict[str, np.ndarray]:
    """What torch says: y, and what it makes of the running statistics in training."""
    import torch

    def tensor(array: np.ndarray) -> Any:
        if array.dtype.name == "bfloat16":
            return torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16)
        return torch.from_numpy(array.copy())

    def array(tensor: Any) -> np.ndarray:
        if tensor.dtype == torch.bfloat16:
            return tensor.contiguous().view(torch.int16).numpy().view(np.uint16)
        return np.asarray(tensor.contiguous().numpy())

    given = {name: tensor(value) for name, value in case.inputs().items()}
    x = given.pop("x")
    if case.over:
        function = getattr(torch.nn.functional, case.function)
        return {"y": array(function(x, list(case.shape[-case.over :]), eps=case.eps, **given))}
    options = dict(case.options)
    if options.pop("channels_last", False):
        x = x.to(memory_format=torch.channels_last)
    said = {"y": array(torch.nn.functional.batch_norm(x, eps=case.eps, **given, **options))}
    if options["training"]:
        said |= {name: array(given[name]) for name in ("running_mean", "running_var")}
    return said


def everything() -> dict[str, np.ndarray]:
    """The contents of the file: an array for each output of each case, and torch's version."""
    import torch

    outputs = {
        f"{name}|{output}": packed(stored_part(value))
        for name, case in CASES.items()
        for output, value in ask(case).items()
    }
    return outputs | {"version": np.array(torch.__version__)}


def check(found: dict[str, np.ndarray]) -> int:
    """Compare with the file; the number of arrays that differ."""
    with np.load(STORE) as stored:
        names = sorted({*stored.files, *found})
        wrong = [
            name
            for name in names
            if name not in stored.files or name not in found or stored[name].tobytes() != found[name].tobytes()
        ]
    for name in wrong:
        print(f"differs: {name}")
    print(f"{len(names)} arrays, {len(wrong)} differ")
    return len(wrong)


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        sys.exit(bool(check(everything())))
    np.savez_compressed(STORE, **everything())
    print(f"{STORE}: {len(CASES)} cases, {STORE.stat().st_size} bytes")
