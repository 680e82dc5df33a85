"""The vocabulary of programs: every operation kind, with what it takes, what it gives and its attributes.

It is plain data.  Front ends use these kinds and no other, the machine understands all of them; ``program.validate``
holds a program to them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Kind:
    """What an operation kind takes and gives: numbers of sources and results (None: any) and its attributes."""

    group: str
    src: int | None
    dst: int | None
    attrs: tuple[str, ...] = ()
    doc: str = ""


KINDS: Mapping[str, Kind] = {
    # -- move: all pure, none sees the active mask
    "mov": Kind("move", 1, 1, doc="copy"),
    "bitcast": Kind("move", 1, 1, ("source",), "the same bits as another dtype of the same size; source: its dtype"),
    "cvt": Kind(
        "move",
        1,
        1,
        ("source", "rounding"),
        "convert from dtype `source`.  int->int wraps; ->b1 is `!= 0`; b1-> is 0 or 1; to float rounds to nearest even"
        " (or as `rounding` says);"
        " float->int truncates and saturates, NaN gives 0 (PTX cvt.rzi)",
    ),
    "select": Kind("move", 3, 1, doc="src[0] (b1) ? src[1] : src[2]"),
    # -- arithmetic: integers wrap.  rounding: floor ceil trunc for a float result that is not rounded to nearest
    "add": Kind("arithmetic", 2, 1, ("rounding",)),
    "sub": Kind("arithmetic", 2, 1, ("rounding",)),
    "mul": Kind("arithmetic", 2, 1, ("rounding",)),
    "neg": Kind("arithmetic", 1, 1),
    "abs": Kind("arithmetic", 1, 1),
    "fma": Kind("arithmetic", 3, 1, ("rounding",), "src[0]*src[1]+src[2], one rounding"),
    "min": Kind("arithmetic", 2, 1, ("nan",), "floats, nan='ignore' (fmin) or 'propagate'"),
    "max": Kind("arithmetic", 2, 1, ("nan",), "floats, nan='ignore' (fmax) or 'propagate'"),
    "div": Kind(
        "arithmetic", 2, 1, ("rounding",), "floats: true division.  Integers: truncates as C; by zero gives all ones"
    ),
    "rem": Kind("arithmetic", 2, 1, doc="C remainder (sign of src[0]; floats: fmod).  Integer by zero gives src[0]"),
    "floordiv": Kind("arithmetic", 2, 1, doc="Python //.  Integer by zero gives 0"),
    "mod": Kind("arithmetic", 2, 1, doc="Python %.  Integer by zero gives 0"),
    # -- bits: integers; and, or, xor, not also b1
    "and": Kind("bits", 2, 1),
    "or": Kind("bits", 2, 1),
    "xor": Kind("bits", 2, 1),
    "not": Kind("bits", 1, 1),
    "shl": Kind("bits", 2, 1, ("amount",), "`amount` is the dtype of src[1]; amounts past the width clamp, as in PTX"),
    "shr": Kind("bits", 2, 1, ("amount",), "arithmetic for signed dtypes, logical for unsigned; amounts clamp"),
    "popc": Kind("bits", 1, 1, doc="dst u4"),
    "clz": Kind("bits", 1, 1, doc="dst u4; of 0: the width"),
    "brev": Kind("bits", 1, 1),
    # -- compare, dst b1
    "cmp": Kind(
        "compare",
        2,
        1,
        ("how", "unordered", "implied"),
        "how: lt le gt ge eq ne.  unordered: the answer when an operand is NaN (Python's != is ne with True);"
        " implied: the source does not say it (debug=True asks whether a divisor is 0)",
    ),
    "classify": Kind("compare", 1, 1, ("fn",), "fn: isnan isinf isfinite signbit"),
    # -- math: floats
    "round": Kind("math", 1, 1, ("mode",), "to an integral float; mode: even floor ceil trunc away"),
    "sqrt": Kind("math", 1, 1, ("rounding",)),
    "rsqrt": Kind("math", 1, 1, doc="1/sqrt(x), correctly rounded here; hardware's approximation is within 2 ulp"),
    "copysign": Kind("math", 2, 1),
    "math": Kind("math", None, None, ("fn",), "fn: exp exp2 log log2 log10 sin pow atan2 erf ... (operations/math)"),
    # -- address
    "elem": Kind(
        "address",
        None,
        1,
        ("name", "signed", "run"),
        "dtype i8.  src: base, then (index, extent, stride in bytes) per axis; dst: the byte address.  Checks every"
        " axis; a negative index wraps once where signed[axis].  Index slots are i8 or u8.  run: (count, itemsize) for"
        " that many elements side by side along the last axis, which must all be inside it; then nothing wraps",
    ),
    # -- memory; src[0] is a byte address (i8).  guarded: the last src is a b1, lanes without it do nothing
    "ld": Kind(
        "memory",
        None,
        None,
        ("name", "guarded", "align", "hint"),
        "n results: n consecutive elements as one access.  align: the bytes that the address is a multiple of, where"
        " it need not be the whole access's (structures, which are accessed by their parts).  hint: the cache operator"
        " of PTX",
    ),
    "st": Kind("memory", None, 0, ("name", "guarded", "align", "hint"), "src: address, n values; the rest as for ld"),
    "atom": Kind(
        "memory",
        None,
        None,
        ("name", "op", "guarded"),
        "op: add sub max min nanmax nanmin and or xor inc dec exch cas; src: address, operand (cas: compare, new);"
        " dst: the old value, or nothing",
    ),
    "fence": Kind("memory", 0, 0, ("scope",), "scope: block device system"),
    # -- warp; the mask is a u4 slot, last in src
    "shfl": Kind(
        "warp",
        4,
        None,
        ("mode",),
        "mode: idx up down bfly (PTX shfl.sync); src: value, lane or offset (i4), clamp c (i4), mask;"
        " dst: value, or value and a b1 that says whether the source lane was in range",
    ),
    "vote": Kind("warp", 2, 1, ("mode",), "mode: all any eq (dst b1), ballot (dst u4); src: b1, mask"),
    "match": Kind("warp", 2, None, ("mode",), "mode: any (dst u4), all (dst u4, b1); src: value, mask"),
    "activemask": Kind("warp", 0, 1, doc="dst u4"),
    "syncwarp": Kind("warp", 1, 0, doc="src: mask"),
    # -- block
    "bar": Kind(
        "block",
        None,
        None,
        ("reduce", "scope"),
        "reduce: None, or count/and/or with a b1 source and an i4 result.  scope: grid for all blocks of the grid,"
        " which then live at once; else the block",
    ),
    # -- other
    "trap": Kind(
        "other",
        0,
        0,
        ("message", "raised"),
        "a `raise` was reached; the lanes exit after it.  raised: the exception's class and its arguments",
    ),
    "print": Kind("other", None, 0, ("text",), "text: pieces of the line in order, None where the next source stands"),
}
"""The operation kinds: the whole vocabulary that front ends may use and the machine understands."""

SYNC = frozenset({"shfl", "vote", "match", "syncwarp", "bar"})
MEMORY = frozenset({"ld", "st", "atom"})
