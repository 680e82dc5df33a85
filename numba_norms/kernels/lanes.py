"""What one lane does at once: accesses of up to 16 bytes, and conversions between formats that need no external call.

Numba turns eight consecutive elements into eight loads, since it knows nothing of their alignment, and converts
bfloat16 by calling functions that have to be linked in.  These intrinsics give what CUDA C++ has in ``float4`` and in
the conversion instructions.  In Python they would read::

    def vload(array, index, registers, j, n):
        for k in range(n):
            registers[j + k] = array[index + k]         # as compute(value), the type of the registers

    def vstore(array, index, registers, j, n):
        for k in range(n):
            array[index + k] = registers[j + k]         # as storage(value), the type of the array: rounded to nearest

where ``index`` is an integer or a tuple of them, whose last one moves.  The caller promises what nobody checks: the
elements lie next to each other, and the first one at a multiple of the bytes of the access.  ``n`` is a constant; more
than 16 bytes become several accesses of 16.  A negative index does not count from the end.

The hardware knows bfloat16, and packs two halves in one instruction, from compute capability 8.0 on (PTX ISA, "cvt").
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from llvmlite import ir
from numba.cuda.extending import intrinsic

try:
    from numba.cuda import cgutils, types

    types.Array  # noqa: B018  # Numba without numba-cuda has a module of this name with CUDA's own types only
except (ImportError, AttributeError):
    from numba.core import cgutils, types

BYTES = 16
"""The widest access of one lane."""

_I16, _I32, _I64 = ir.IntType(16), ir.IntType(32), ir.IntType(64)
_HALF, _FLOAT, _DOUBLE = ir.HalfType(), ir.FloatType(), ir.DoubleType()
_FLOATS = {"float16": _HALF, "bfloat16": None, "float32": _FLOAT, "float64": _DOUBLE}
_ROUND_TOWARDS_ZERO = "cvt.rz.f32.f64 $0, $1;"


@intrinsic
def vload(typingctx, array, index, registers, j, n):
    """``registers[j + k] = array[index + k]`` for ``k < n``, in one access."""
    return _wide_load(array, index, registers, j, n, read_only=False)


@intrinsic
def vload_readonly(typingctx, array, index, registers, j, n):
    """As ``vload``, from memory that the kernel does not write: the load may pass stores that come before it."""
    return _wide_load(array, index, registers, j, n, read_only=True)


@intrinsic
def vstore(typingctx, array, index, registers, j, n):
    """``array[index + k] = registers[j + k]`` for ``k < n``, rounded to nearest, in one access."""
    if not isinstance(n, types.IntegerLiteral):  # Numba tries types without values first
        return None
    signature = types.void(array, index, registers, j, n)

    def codegen(context, builder, signature, args):
        storage = _format(array.dtype)
        first, source = _pointer(context, builder, signature, args), _register(context, builder, signature, args)
        for start, count in _accesses(array.dtype.bitwidth // 8, n.literal_value):
            values = [builder.load(builder.gep(source, [_I32(start + k)])) for k in range(count)]
            words = _pack(builder, values, storage)
            whole = ir.Constant(ir.VectorType(words[0].type, len(words)), ir.Undefined)
            for position, word in enumerate(words):
                whole = builder.insert_element(whole, word, _I32(position))
            target = builder.bitcast(builder.gep(first, [_I32(start)]), whole.type.as_pointer())
            builder.store(whole, target, align=count * array.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def widen(typingctx, value, compute):
    """``compute(value)`` for a format as wide or narrower."""

    def codegen(context, builder, signature, args):
        return _float(builder, args[0], _format(value), _format(compute.dtype))

    return compute.dtype(value, compute), codegen


@intrinsic
def narrow(typingctx, value, storage):
    """``storage(value)``, rounded to nearest."""

    def codegen(context, builder, signature, args):
        kind = _format(storage.dtype)
        if kind == _format(value):
            return args[0]
        bits = _rounded(builder, args[0], kind)
        return builder.bitcast(bits, context.get_value_type(storage.dtype))

    return storage.dtype(value, storage), codegen


# -- code for the accesses -------------------------------------------------------------------------------------------


def _wide_load(array: Any, index: Any, registers: Any, j: Any, n: Any, *, read_only: bool) -> Any:
    if not isinstance(n, types.IntegerLiteral):  # Numba tries types without values first
        return None
    signature = types.void(array, index, registers, j, n)

    def codegen(context, builder, signature, args):
        storage, compute = _format(array.dtype), _format(registers.dtype)
        first, target = _pointer(context, builder, signature, args), _register(context, builder, signature, args)
        for start, count in _accesses(array.dtype.bitwidth // 8, n.literal_value):
            size = count * array.dtype.bitwidth // 8
            word = _I64 if storage == "float64" else _I32 if size >= 4 else _I16
            source = builder.gep(first, [_I32(start)])
            vector = ir.VectorType(word, size * 8 // word.width)
            whole = builder.load(builder.bitcast(source, vector.as_pointer()), align=size)
            if read_only:
                whole.set_metadata("invariant.load", builder.module.add_metadata([]))
            words = [builder.extract_element(whole, _I32(position)) for position in range(vector.count)]
            for k, bits in enumerate(_elements(builder, words, array.dtype.bitwidth)):
                builder.store(_float(builder, bits, storage, compute), builder.gep(target, [_I32(start + k)]))
        return context.get_dummy_value()

    return signature, codegen


def _accesses(itemsize: int, n: int) -> Iterator[tuple[int, int]]:
    """First element and number of elements of each access.  ValueError for numbers that no accesses make up."""
    count = min(n, BYTES // itemsize)
    if count < 1 or n % count or count & (count - 1):
        raise ValueError(f"n is {n}: elements go in powers of two, up to {BYTES} bytes at once")
    return ((start, count) for start in range(0, n, count))


def _pointer(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    """Where element ``index`` of the array is.  The last axis is contiguous; no index counts from the end."""
    kind, index = signature.args[:2]
    array = context.make_array(kind)(context, builder, value=args[0])
    if isinstance(index, types.BaseTuple):
        indices = list(zip(cgutils.unpack_tuple(builder, args[1], len(index)), index, strict=True))
    else:
        indices = [(args[1], index)]
    pointer = array.data
    strides = cgutils.unpack_tuple(builder, array.strides, kind.ndim)
    for (value, type_), stride in zip(indices[:-1], strides, strict=False):
        wide = _int64(builder, value, type_)
        raw = builder.gep(builder.bitcast(pointer, ir.IntType(8).as_pointer()), [builder.mul(wide, stride)])
        pointer = builder.bitcast(raw, array.data.type)
    return builder.gep(pointer, [_int64(builder, *indices[-1])])


def _register(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    """Where ``registers[j]`` is."""
    array = context.make_array(signature.args[2])(context, builder, value=args[2])
    return builder.gep(array.data, [_int64(builder, args[3], signature.args[3])])


def _int64(builder: Any, value: Any, kind: Any) -> Any:
    if value.type.width == 64:
        return value
    return builder.sext(value, _I64) if types.unliteral(kind).signed else builder.zext(value, _I64)


# -- code for the formats --------------------------------------------------------------------------------------------


def _format(kind: Any) -> str:
    """The name of a floating-point type (Numba calls bfloat16 as CUDA C++ does)."""
    return str(kind).removeprefix("__nv_")


def _elements(builder: Any, words: list[Any], bits: int) -> list[Any]:
    """Words cut into elements of so many bits."""
    if words[0].type.width == bits:
        return words
    halves = []
    for word in words:
        halves.append(builder.trunc(word, _I16))
        halves.append(builder.trunc(builder.lshr(word, _I32(16)), _I16))
    return halves


def _float(builder: Any, value: Any, storage: str, compute: str) -> Any:
    """A value of format ``storage``, given as its bits or its number, in format ``compute``."""
    if storage == "bfloat16":  # the upper half of a float32
        word = builder.shl(builder.zext(builder.bitcast(value, _I16), _I32), _I32(16))
        value, storage = builder.bitcast(word, _FLOAT), "float32"
    else:
        value = builder.bitcast(value, _FLOATS[storage])
    if storage == compute:
        return value
    narrower = storage == "float64"
    return builder.fptrunc(value, _FLOATS[compute]) if narrower else builder.fpext(value, _FLOATS[compute])


def _pack(builder: Any, values: list[Any], storage: str) -> list[Any]:
    """Numbers rounded to format ``storage``, as the words of one access."""
    if storage in ("float32", "float64"):
        return [_rounded(builder, value, storage) for value in values]
    if len(values) == 1 or values[0].type == _DOUBLE:
        halves = [_rounded(builder, value, storage) for value in values]
        if len(halves) == 1:
            return halves
        wide = [builder.zext(half, _I32) for half in halves]
        return [builder.or_(low, builder.shl(high, _I32(16))) for low, high in zip(wide[::2], wide[1::2], strict=True)]
    packed = {"float16": "f16x2", "bfloat16": "bf16x2"}[storage]  # one instruction for two, upper half first
    convert = ir.InlineAsm(ir.FunctionType(_I32, [_FLOAT, _FLOAT]), f"cvt.rn.{packed}.f32 $0, $2, $1;", "=r,f,f")
    return [builder.call(convert, pair) for pair in zip(values[::2], values[1::2], strict=True)]


def _rounded(builder: Any, value: Any, storage: str) -> Any:
    """The bits of a float32 or float64 in format ``storage``."""
    if storage == "bfloat16":
        if value.type == _DOUBLE:
            value = _to_odd(builder, value)
        convert = ir.InlineAsm(ir.FunctionType(_I16, [_FLOAT]), "cvt.rn.bf16.f32 $0, $1;", "=h,f")
        return builder.call(convert, [value])
    kind = _FLOATS[storage]
    if value.type != kind:
        value = builder.fpext(value, kind) if kind == _DOUBLE else builder.fptrunc(value, kind)
    return builder.bitcast(value, {_HALF: _I16, _FLOAT: _I32, _DOUBLE: _I64}[kind])


def _to_odd(builder: Any, value: Any) -> Any:
    """A float64 as the float32 towards zero, its last bit set if anything was lost: rounding that again is exact.

    Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums: proved algorithms using rounding to odd", 2008.
    """
    convert = ir.InlineAsm(ir.FunctionType(_FLOAT, [_DOUBLE]), _ROUND_TOWARDS_ZERO, "=f,d")
    towards_zero = builder.call(convert, [value])
    lost = builder.fcmp_unordered("!=", builder.fpext(towards_zero, _DOUBLE), value)
    return builder.bitcast(builder.or_(builder.bitcast(towards_zero, _I32), builder.zext(lost, _I32)), _FLOAT)
