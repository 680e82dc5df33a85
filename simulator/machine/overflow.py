"""Notices finite floats that became infinite.

Rules of this file:

* NumPy raises the processor's overflow flag itself: the launch is only told to call back, so that arithmetic which does
  not overflow costs nothing.
* Lanes that are off hold garbage, which overflows as it likes.  Called back, ``Overflow`` finds the operation that runs
  in the frame of generated code below it, computes it again and looks at the active lanes.
* Told are sums, products, quotients and conversions of finite numbers.  Infinity is what ``exp`` means for a large
  number, and what a division by zero means.
* bfloat16 is not NumPy's and raises no flag.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import CodeType
from typing import Any

import numpy as np

from simulator.machine.operations import expression
from simulator.machine.values import array_of, expand
from simulator.program import FLOATS, Const, Op

KINDS = frozenset({"add", "sub", "mul", "fma", "div", "cvt"})

Report = Callable[[Any, Op, tuple[Any, ...], np.ndarray], None]
"""Called with the split, the operation, its operands and a mask of the lanes that overflowed."""


class Overflow:
    """The call-back of one launch.  ``owners`` has, for each generated function, the operation of each of its lines."""

    def __init__(self, owners: dict[CodeType, list[Op | None]], report: Report) -> None:
        self.owners = owners
        self.report = report
        self._compiled: dict[Op, Callable[..., Any]] = {}

    def __call__(self, what: str, flag: int) -> None:
        frame = sys._getframe(1)
        while frame is not None and frame.f_code not in self.owners:
            if frame.f_back is None:
                return
            frame = frame.f_back
        op = self.owners[frame.f_code][frame.f_lineno - 2]
        if op is None or op.kind not in KINDS or op.dtype not in FLOATS:
            return
        if op.kind == "cvt" and op.attr["source"] not in FLOATS:
            return
        split = frame.f_locals["S"]
        operands = tuple(self._operand(frame.f_locals, slot) for slot in op.src)
        with np.errstate(all="ignore"):
            result = self._compute(op)(*operands)
            lanes = split.active() & np.isinf(expand(result, split.lanes, op.dtype))
            for slot, value in zip(op.src, operands, strict=True):
                code = split.group.program.slots[slot].dtype
                lanes &= np.isfinite(expand(array_of(value, code), split.lanes, code))
            if op.kind == "div":
                lanes &= expand(operands[1], split.lanes, op.dtype) != 0
        if lanes.any():
            self.report(split, op, operands, lanes)

    def _operand(self, found: dict[str, Any], slot: int) -> Any:
        """A value as the generated function has it now: of its own, or of the split's list."""
        if f"t{slot}" in found:
            return found[f"t{slot}"]
        value = found["E"][slot]
        init = found["S"].group.program.slots[slot].init
        return init.value if value is None and isinstance(init, Const) else value

    def _compute(self, op: Op) -> Callable[..., Any]:
        if op not in self._compiled:
            names: dict[str, Any] = {"np": np}

            def bind(thing: object) -> str:
                names[f"k{len(names)}"] = thing
                return f"k{len(names) - 1}"

            operands = [f"x{k}" for k in range(len(op.src))]
            source = f"lambda {', '.join(operands)}: {expression(op, operands, bind)}"
            self._compiled[op] = eval(source, names)
        return self._compiled[op]
