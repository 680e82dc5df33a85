"""What the meaning of an intrinsic writes with: values that exist when the kernel runs, and the operations on them.

A meaning (see ``simulator.intrinsics``) gets a ``Code`` and the arguments of the call, and gives back the result:

* a number is a ``Number``, an array an ``Array``, a tuple a tuple of these;
* a class of numbers (``float32``) and the dtype of an array are a NumPy dtype, None and strings are themselves.

Rules of this file: nothing is converted unless the meaning says so.  Dtypes are NumPy's (``ml_dtypes.bfloat16`` too); a
value of another dtype than is asked for is the meaning's mistake.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import ml_dtypes
import numpy as np

from simulator.errors import MeaningError
from simulator.frontend.lowering import values
from simulator.frontend.lowering.indexing import address
from simulator.frontend.lowering.library import call_library
from simulator.program import DTYPES, FLOATS, INTEGERS, SIZES

if TYPE_CHECKING:
    from simulator.frontend.lowering.body import Body

WIDEST = 16
"""Bytes of the widest access of one lane."""

NUMPY: dict[str, np.dtype[Any]] = {
    code: np.dtype({"b1": bool, "bf": ml_dtypes.bfloat16}.get(code, code)) for code in DTYPES
}
"""Dtype codes of the program, and what NumPy calls them."""
_CODES = {dtype: code for code, dtype in NUMPY.items()}


class Number:
    """A number that each thread has when the kernel runs.  ``dtype`` is a NumPy dtype.

    It can be added, subtracted and multiplied with another of the same dtype or with a Python number, which becomes
    one of its dtype; integers wrap.  Everything else is said in Python and inlined with ``Code.call``.
    """

    __array_ufunc__ = None  # so that a NumPy scalar on the left lets this class answer

    def __init__(self, code: Code, slot: int, name: str = "") -> None:
        self._code = code
        self._slot = slot
        self._name = name

    @property
    def dtype(self) -> np.dtype[Any]:
        """Its dtype."""
        return NUMPY[self._code._builder.dtype(self._slot)]

    def __add__(self, other: Any) -> Number:
        return self._code._arithmetic("add", self, other)

    def __radd__(self, other: Any) -> Number:
        return self._code._arithmetic("add", other, self)

    def __sub__(self, other: Any) -> Number:
        return self._code._arithmetic("sub", self, other)

    def __rsub__(self, other: Any) -> Number:
        return self._code._arithmetic("sub", other, self)

    def __mul__(self, other: Any) -> Number:
        return self._code._arithmetic("mul", self, other)

    def __rmul__(self, other: Any) -> Number:
        return self._code._arithmetic("mul", other, self)

    def __eq__(self, other: object) -> NoReturn:
        raise TypeError(f"{self!r} is compared before the kernel runs: compare its constant, or inside code.call()")

    def __hash__(self) -> int:
        return id(self)

    __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __eq__

    def __bool__(self) -> NoReturn:
        raise TypeError(f"{self!r} is neither true nor false before the kernel runs: take code.constant()")

    def __repr__(self) -> str:
        return f"<{self._name or 'number'}: {self.dtype}>"


class Array:
    """An array that the kernel has: ``dtype`` is a NumPy dtype, ``ndim`` an int, ``shape`` a tuple of ``Number``."""

    def __init__(self, code: Code, value: values.Array, name: str) -> None:
        if not value.code:
            code.refuse(f"with an array of {value.element}")
        self._value = value
        self._name = name
        self.dtype = NUMPY[value.code]
        self.ndim = len(value.shape)
        self.shape = tuple(Number(code, slot, f"{name}.shape[{axis}]") for axis, slot in enumerate(value.shape))

    def __repr__(self) -> str:
        return f"<{self._name}: array({self.dtype}, {self.ndim}d)>"


Handle = Number | Array | tuple[Any, ...] | np.dtype[Any] | str | None


class Code:
    """Writes what one call of an intrinsic does; everything bears the source line of that call.  ``name`` is the
    intrinsic's.
    """

    def __init__(self, body: Body, name: str) -> None:
        self.name = name
        self._body = body
        self._builder = body.builder

    # ------------------------------------------------------------------------------------------------- memory

    def load(self, array: Array, index: Any, count: int = 1) -> tuple[Number, ...]:
        """``count`` elements that lie side by side along the last axis, as one access; a tuple of ``count`` numbers.

        ``index`` is that of the first element: an integer, or a tuple of one for each axis.  The access is of 1, 2, 4,
        8 or 16 bytes, and the machine finds an address that is no multiple of that (``misaligned-access``), elements
        outside the array (``out-of-bounds``) and a last axis that is not contiguous.  No index counts from the end.
        """
        where, code = self._place(array, index, count), array._value.code
        slots = self._builder.ops("ld", code, where, results=(code,) * count, name=array._value.name)
        return tuple(Number(self, slot) for slot in slots)

    def store(self, array: Array, index: Any, values: Sequence[Any]) -> None:
        """Write ``values`` to elements that lie side by side, as one access; see ``load``.

        A value is a number of the array's dtype, or a Python number, which becomes one.
        """
        slots = [self._number(value, array.dtype) for value in values]
        self._builder.do("st", array._value.code, self._place(array, index, len(slots)), *slots, name=array._value.name)

    def _place(self, array: Array, index: Any, count: int) -> int:
        if not isinstance(array, Array):
            raise TypeError(f"an access goes to an array, not to {array!r}")
        size = SIZES[array._value.code]
        if type(count) is not int or count * size not in (size, *(1 << k for k in range(WIDEST.bit_length()))):
            raise TypeError(
                f"one access of {count} elements of {size} bytes: a lane accesses 1, 2, 4, 8 or {WIDEST} bytes at once"
            )
        items = index if isinstance(index, tuple) else (index,)
        if len(items) != array.ndim:
            self.refuse(f"with {len(items)} indices for {array!r}")
        slots = [self._index(item) for item in items]
        return address(self._body, array._value, slots, run=(count, size))

    def _index(self, item: Any) -> int:
        slot = self._number(item, np.dtype(np.int64)) if isinstance(item, int) else self._slot_of(item)
        code = self._builder.dtype(slot)
        if code not in INTEGERS:
            raise TypeError(f"an index is an integer, not {item!r}")
        return self._builder.cast(slot, "u8" if code[0] == "u" else "i8")

    # ---------------------------------------------------------------------------------------------- arithmetic

    def convert(self, value: Any, dtype: Any) -> Number:
        """The number in another dtype, as the kernel's ``float32(value)`` converts.

        To a float it is rounded to nearest even; a float to an integer is truncated and saturates; integers wrap.
        """
        return Number(self, self._builder.cast(self._slot_of(value), _code_of(dtype)))

    def bitcast(self, value: Number, dtype: Any) -> Number:
        """The same bits as a number of another dtype of the same size."""
        source, code = _code_of(value.dtype), _code_of(dtype)
        if SIZES[source] != SIZES[code] or "b1" in (source, code):
            raise TypeError(f"the bits of {value!r} do not make a {NUMPY[code]}")
        return Number(self, self._builder.op("bitcast", code, self._slot_of(value), source=source))

    def constant(self, value: Any) -> Any:
        """The Python number that an argument is, where the kernel's source says so; refused where it is computed."""
        if isinstance(value, int | float):
            return value
        known = self._builder.known(self._slot_of(value))
        if known is None:
            self.refuse(f"with {value._name or 'a value'} that is not a compile-time constant")
        return known

    def call(self, function: Callable[..., Any], *numbers: Any) -> Any:
        """Inline a plain Python function on numbers; its result is a number, a tuple of numbers or None.

        Numba types it for the dtypes of the numbers, so that it may use whatever a kernel may: branches, loops,
        shuffles, barriers.  A Python int is an int64 there, a float a float64.  Define it once, at the top of a module:
        it is typed anew as often as it is defined.
        """
        slots = tuple(self._slot_of(number) for number in numbers)
        if any(self._builder.dtype(slot) == "bf" for slot in slots):
            raise TypeError("code.call() takes no bfloat16: convert it to float32")
        return self._handle(call_library(self._body, function, slots))

    def refuse(self, how: str) -> NoReturn:
        """Raise ``Unsupported``: this form of the call is not modelled.  ``how`` goes on after the intrinsic's name."""
        raise self._body.refuse(f"the intrinsic {self.name} {how}")

    def _arithmetic(self, kind: str, left: Any, right: Any) -> Number:
        number = left if isinstance(left, Number) else right
        a, b = (self._number(side, number.dtype) for side in (left, right))
        code = self._builder.dtype(a)
        x, y = self._builder.known(a), self._builder.known(b)
        if code in INTEGERS and x is not None and y is not None:
            return Number(self, self._builder.const(code, {"add": x + y, "sub": x - y, "mul": x * y}[kind]))
        return Number(self, self._builder.op(kind, code, a, b))

    # ------------------------------------------------------------------------------------- handles and slots

    def _number(self, value: Any, dtype: np.dtype[Any]) -> int:
        """The slot of a number of this dtype; a Python number becomes a constant."""
        code = _code_of(dtype)
        if isinstance(value, int | float | np.number) and not isinstance(value, bool):
            if isinstance(value, int | np.integer) or code in FLOATS:
                return self._builder.const(code, value)
            raise TypeError(f"{value!r} is no {dtype}")
        slot = self._slot_of(value)
        if self._builder.dtype(slot) != code:
            raise TypeError(f"{value!r} where {dtype} is asked for: convert it with code.convert()")
        return slot

    def _slot_of(self, value: Any) -> int:
        if isinstance(value, Number):
            return value._slot
        if isinstance(value, int | float):
            code = "b1" if isinstance(value, bool) else "i8" if isinstance(value, int) else "f8"
            return self._builder.const(code, value)
        raise TypeError(f"{value!r} is no number")

    def _handle(self, value: values.Value, name: str = "") -> Any:
        """What a meaning gets for a value of the front end."""
        match value:
            case int():
                return Number(self, value, name)
            case values.Array():
                return Array(self, value, name)
            case values.Tuple(items):
                return tuple(self._handle(item, f"{name}[{k}]") for k, item in enumerate(items))
            case values.Known(None):
                return None
        raise MeaningError(f"{self._builder.pos}: {self.name} has a value of no number: {value}")


def _code_of(dtype: Any) -> str:
    found = _CODES.get(np.dtype(dtype))
    if found is None:
        raise TypeError(f"the simulator's machine has no numbers of dtype {np.dtype(dtype)}")
    return found
