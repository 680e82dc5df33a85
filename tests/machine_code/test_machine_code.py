"""Kernels compile to what the page says: wide accesses, no spill, call or float64, as few instructions as nvcc's."""

from __future__ import annotations

import dataclasses
import shutil
import sys
from functools import cache

import pytest

from tests.machine_code.cases import CAPABILITIES, Case, cases, measure
from tests.machine_code.sass import Figures, Instruction, figures, loops, per_access
from tests.machine_code.table import Row, committed, written
from tests.machine_code.toolchain import versions
from tests.machine_code.twins import Twin, measure_twins

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the wheels with nvcc are those for Linux")

RATIO = 1.05
"""Our instructions to those of CUDA C++."""

DRIFT = 0.1
"""How far other versions of the compilers may be from the page, as a share."""

CASES = cases()
SHORT = [case for case in CASES if not case.full]
LONG = [case for case in CASES if case.full]

NONE = ("stack", "spills", "float64")
NONE_AT_SPEED = ("calls", "generic")
"""Where a textbook's kernel, or BatchNorm's, divides exactly, the rare cases of a division are a function."""
SHAPE = ("loads", "stores", "narrow", "shuffles", "barriers")


USUAL = (9, 0)
"""The capability that every run compiles for; the others take their turn with the long tests."""


def on_each(some: list[Case]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        ("case", "capability"),
        [
            pytest.param(
                case,
                capability,
                id=f"{case.name}-{capability[0]}.{capability[1]}",
                marks=() if capability == USUAL else pytest.mark.full,
            )
            for capability in CAPABILITIES
            for case in some
        ],
    )


@cache
def twins(capability: tuple[int, int], full: bool) -> dict[Twin, Figures]:
    """One run of nvcc for all of them."""
    if shutil.which("gcc") is None:
        pytest.skip("no gcc, which nvcc needs for its preprocessor")
    return measure_twins([case.twin for case in CASES if case.twin and (full or not case.full)], capability)


def check(case: Case, capability: tuple[int, int]) -> None:
    ours = measure(case, capability)
    at_speed = not case.name.endswith("strided") and not case.name.startswith("batch_norm")
    for name in (*NONE, *(NONE_AT_SPEED if at_speed else ())):
        assert getattr(ours, name) == 0, name
    twin = twins(capability, case.full)[case.twin] if case.twin else None
    row = Row(case.name, capability, ours, twin)
    if twin is not None:
        assert row.ours.loads > 0
        assert row.ours.stores > 0
        if not twin.loop:  # unrolling multiplies what is in a loop
            assert {name: getattr(row.ours, name) for name in SHAPE} == {name: getattr(twin, name) for name in SHAPE}
        assert row.ratio is not None
        assert row.ratio <= RATIO, (row.ours, twin)
    compare(row)


def compare(row: Row) -> None:
    """With the page: exactly where the compilers are those of the page, otherwise within what versions change."""
    made_by, table = committed()
    there, here = table[row.case, row.capability], row.cells()
    if made_by == versions():
        assert here == there, "the machine code has changed: python -m tests.machine_code.table"
        return
    for now, then in zip(here[1:], there[1:], strict=True):
        assert bool(now) == bool(then)
        assert not now or abs(float(now) - float(then)) <= max(4, DRIFT * float(then)), (here, there)


@on_each(SHORT)
def test_machine_code(case: Case, capability: tuple[int, int]) -> None:
    check(case, capability)


@pytest.mark.full
@on_each(LONG)
def test_machine_code_of_the_rest(case: Case, capability: tuple[int, int]) -> None:
    check(case, capability)


def test_the_page_has_each_case_and_nothing_else() -> None:
    assert list(committed()[1]) == [(case.name, capability) for capability in CAPABILITIES for case in CASES]


# -- the counting counts ---------------------------------------------------------------------------------------------


def code(*lines: str) -> list[Instruction]:
    return [Instruction(*line.split(" ", 1)) if " " in line else Instruction(line, "") for line in lines]


def test_what_counts_as_what() -> None:
    found = figures(
        code(
            "LDG.E.128.CONSTANT R4,[R2.64]", "LDG.E R4,[R2.64]", "LD.E.128 R4,[R2.64]", "STG.E.128 [R2.64],R4",
            "STG.E.U16 [R2.64],R4", "LDS.128 R4,[R2]", "STL [R1],R4", "LDL R4,[R1]", "SHFL.BFLY PT,R4,R4,0x1,0x1f",
            "BAR.SYNC.DEFER_BLOCKING 0x0", "DFMA R2,R2,R2,R2", "F2F.F64.F32 R2,R4", "MUFU.RCP64H R2,R4",
            "MUFU.RSQ R2,R4", "CALL.REL.NOINC 0x40", "EXIT", "NOP", "NOP",
        ),
        registers=40,
        stack=8,
    )  # fmt: skip
    assert found == Figures(
        instructions=16, registers=40, loads=2, stores=1, narrow=2, shuffles=1, barriers=1, stack=8, spills=2,
        float64=3, calls=1, loop=0, generic=1,
    )  # fmt: skip


def test_loops_are_found_and_the_one_that_runs_is_taken() -> None:
    lines = code(
        "MOV R1,c[0x0][0x28]",
        "LDG.E.128 R4,[R2.64]", "LDG.E.128 R8,[R2.64]", "FADD R4,R4,R8", "FADD R4,R4,R9", "FADD R4,R4,R9",
        "BRA 0x10",  # unrolled twice: 6 instructions, 2 accesses
        "LDG.E.128 R4,[R2.64]", "FADD R4,R4,R8", "BRA !P1,0x70",  # the rest: 3 and 1
        "BRA 0xe0",  # forwards
        "LDG.E.128 R4,[R2.64]", "STG.E.128 [R2.64],R4", "BRA 0xb0",  # 3 and 2
        "EXIT", "BRA 0xf0",  # itself
    )  # fmt: skip
    assert [len(loop) for loop in loops(lines)] == [6, 3, 3]
    assert per_access(lines) == 6 / 2 + 3 / 2


def test_a_difference_from_the_page_is_noticed() -> None:
    (case, capability), _ = next(iter(committed()[1].items()))
    row = Row(case, capability, *_figures_of(case, capability))
    compare(row)
    worse = dataclasses.replace(row, ours=dataclasses.replace(row.ours, instructions=2 * row.ours.instructions))
    with pytest.raises(AssertionError):
        compare(worse)
    assert row.cells()[0] in written([row])


def _figures_of(name: str, capability: tuple[int, int]) -> tuple[Figures, Figures | None]:
    (case,) = (case for case in CASES if case.name == name)
    return measure(case, capability), twins(capability, case.full)[case.twin] if case.twin else None
