"""``carray`` and ``farray``: arrays over the memory that a pointer leads to."""

from __future__ import annotations

from simulator.frontend import kernel_types as kt
from simulator.frontend.layouts import bytes_of
from simulator.frontend.lowering.calls.table import Bound, meaning
from simulator.frontend.lowering.pointers import address_of
from simulator.frontend.lowering.values import Array, Pointer, Tuple, Value


@meaning("numba.cuda.np.arrayobj.get_cfarray_intrinsic.<locals>.intrinsic_cfarray", "ptr shape")
def _array(bound: Bound) -> Value:
    """The array of this shape; Numba has written it into the kernel that calls ``carray`` or ``farray``."""
    body, kind = bound.body, bound.kind
    pointer, extents = (body.value(bound.arguments[name]) for name in ("ptr", "shape"))
    if not isinstance(pointer, Pointer) or not isinstance(kind, kt.ArrayType):
        raise bound.refuse(f"of {bound.type('ptr')}")
    items = extents.items if isinstance(extents, Tuple) else (extents,)
    shape = bound.integers(*items)
    stride = bound.builder.const("i8", bytes_of(kind.element))
    strides: list[int] = []
    for extent in shape if kind.layout == "F" else shape[::-1]:
        strides.append(stride)
        stride = bound.builder.op("mul", "i8", stride, extent)
    paces = strides if kind.layout == "F" else strides[::-1]
    return Array(address_of(body, pointer), tuple(shape), tuple(paces), kind.element, pointer.name)
