"""Normalisation layers for CuPy, torch and NumPy arrays, written as Numba-CUDA kernels: the public names, nothing else.

An array in CUDA memory runs on its GPU.  A NumPy array runs the very same kernels on the simulator, exact in types.
"""

from numba_norms import reference
from numba_norms.add_norm import AddLayerNormStats, AddNorm, AddRMSNormStats, add_layer_norm, add_rms_norm
from numba_norms.batch_norm import batch_norm
from numba_norms.binding.plans import Plan, plan
from numba_norms.explain import Explanation, explain
from numba_norms.launch import SimulatedOnCPU
from numba_norms.layer_norm import layer_norm
from numba_norms.moments import Moments, merge_moments, moments
from numba_norms.rms_norm import rms_norm

__all__ = [
    "AddLayerNormStats", "AddNorm", "AddRMSNormStats", "Explanation", "Moments", "Plan", "SimulatedOnCPU",
    "add_layer_norm", "add_rms_norm", "batch_norm", "explain", "layer_norm", "merge_moments", "moments", "plan",
    "reference", "rms_norm",
]  # fmt: skip
