"""Findings: the closed vocabulary, and every fault of the machine told as a sentence."""

from __future__ import annotations

import dataclasses

import pytest

from simulator.catalogue import CATALOGUE, finding_of
from simulator.findings import KINDS, SEVERITIES, Finding, Launch, Replay, Site, unravel
from simulator.machine.faults import Fault, Place
from simulator.machine.limits import check_limits
from simulator.machine.whereabouts import Parting
from simulator.program import Alloc, Pos, Program

FLAT = Launch((4, 1, 1), (64, 1, 1))
SQUARE = Launch((2, 2, 1), (16, 4, 1))
HERE = Pos("k.py", 12, function="k")
THERE = Pos("k.py", 20, function="k")


def tell(fault: Fault, launch: Launch = FLAT) -> Finding:
    return finding_of(fault, "k", launch, Replay("last", 3))


def test_the_vocabulary_is_closed() -> None:
    with pytest.raises(ValueError, match="no such kind of finding: 'typo'"):
        Finding("typo", "")
    assert set(SEVERITIES.values()) == {"error", "warning", "note"}
    assert set(CATALOGUE) - {"step-limit"} <= set(KINDS)


def test_a_finding_is_frozen_and_derives_lines_and_threads() -> None:
    sites = (Site("k.py", 12, "k", 0, 3, "st"), Site("k.py", 20, "k", 0, 35, "ld"), Site("k.py", 12, "k", 0, None))
    found = Finding("race-shared", "…", sites)
    assert (found.severity, found.lines, found.threads) == ("error", (12, 20), (3, 35))
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.count = 2  # type: ignore[misc]


@pytest.mark.parametrize(("number", "shape", "index"), [(35, (64, 1, 1), (35, 0, 0)), (35, (16, 4, 1), (3, 2, 0))])
def test_unravel(number: int, shape: tuple[int, int, int], index: tuple[int, int, int]) -> None:
    assert unravel(number, shape) == index


@pytest.mark.parametrize(
    ("fault", "launch", "message", "mend"),
    [
        pytest.param(
            Fault("out-of-bounds", (Place(HERE, 1, (36,), "ld"),), array="x", axis=0, index=100, extent=100, count=28),
            FLAT,
            "k.py:12: thread 36 of block 1 reads x at index 100 along axis 0, which has 100 elements "
            "(27 more of these lanes do too)",
            "if index < x.shape[0]",
            id="out-of-bounds",
        ),
        pytest.param(
            Fault("out-of-bounds", (Place(HERE, 3, (35,), "st"),), array="x", axis=1, index=-9, extent=8, count=1),
            SQUARE,
            "k.py:12: thread (3, 2) of block (1, 1) writes x at index -9 along axis 1, which has 8 elements",
            "wraps only once",
            id="negative-index-in-two-dimensions",
        ),
        pytest.param(
            Fault("out-of-bounds", (Place(HERE, 0, (1,), "ld"),), array="", address=0x7F0000000040, nbytes=4, count=1),
            FLAT,
            "k.py:12: thread 1 of block 0 reads 4 bytes at address 0x7f0000000040, outside every allocation",
            "address arithmetic",
            id="raw-address",
        ),
        pytest.param(
            Fault(
                "out-of-bounds",
                (Place(HERE, 0, (1,), "st"),),
                array="x",
                address=0x7F0000000040,
                nbytes=4,
                count=1,
                nearest=("x", 64, 4),
            ),
            FLAT,
            "k.py:12: thread 1 of block 0 writes 4 bytes at address 0x7f0000000040 of array 'x', "
            "outside every allocation: it ends 4 bytes past the end of x (64 bytes)",
            "address arithmetic",
            id="past-an-allocation",
        ),
        pytest.param(
            Fault("misaligned-access", (Place(HERE, 0, (1,), "ld"),), array="x", address=0x7F0000000004, nbytes=16),
            FLAT,
            "k.py:12: thread 1 of block 0 accesses 16 bytes of x at address 0x7f0000000004, "
            "which is not a multiple of 16",
            "aligned",
            id="misaligned-access",
        ),
        pytest.param(
            Fault("misaligned-access", (Place(HERE, 0, (1,)),), array="x", address=0x7F0000000004, nbytes=16, count=2),
            FLAT,
            "k.py:12: thread 1 of block 0 accesses 16 bytes of x at address 0x7f0000000004, "
            "which is not a multiple of 16 (1 more of these lanes does too)",
            "aligned",
            id="misaligned-accesses",
        ),
        pytest.param(
            Fault(
                "barrier-divergence",
                (Place(HERE, 0, tuple(range(40)), "syncthreads"),),
                missing=tuple(range(40, 64)),
                waiting=tuple(range(40)),
                elsewhere=((THERE, "syncthreads", tuple(range(40, 64))),),
                exited=(),
                parted=Parting(Pos("", 9), tuple(range(40)), 12, tuple(range(40, 64)), 19),
            ),
            FLAT,
            "k.py:12: threads 0 to 39 (40 of them) of block 0 wait at syncthreads, but threads 40 to 63 (24 of them) "
            "wait at syncthreads on line 20; they parted on line 9: threads 0 to 39 (40 of them) went on to line 12, "
            "threads 40 to 63 (24 of them) to line 19",
            "move the barrier",
            id="barrier-divergence",
        ),
        pytest.param(
            Fault(
                "barrier-divergence",
                (Place(HERE, 0, (1, 2), "syncthreads"),),
                missing=(0,),
                waiting=(1, 2),
                elsewhere=((THERE, "return", (0,)),),
                exited=(0,),
            ),
            FLAT,
            "k.py:12: threads 1, 2 of block 0 wait at syncthreads, but thread 0 went past it and returned on line 20",
            "move the barrier",
            id="barrier-skipped",
        ),
        pytest.param(
            Fault(
                "warp-sync", (Place(HERE, 0, (0, 1)),), operation="shfl_down_sync", warp=0, missing=(5,), elsewhere=()
            ),
            FLAT,
            "k.py:12: thread 0 of block 0: shfl_down_sync in warp 0: the mask names lane 5, which does not arrive",
            "name only lanes",
            id="warp-sync",
        ),
        pytest.param(
            Fault(
                "warp-sync",
                (Place(HERE, 0, (0, 1)),),
                operation="ballot_sync",
                warp=1,
                missing=(5, 9),
                elsewhere=((THERE, "syncwarp", (37, 41)),),
            ),
            FLAT,
            "k.py:12: thread 0 of block 0: ballot_sync in warp 1: the mask names lanes 5, 9, which do not arrive: "
            "threads 37, 41 wait at syncwarp on line 20",
            "name only lanes",
            id="warp-sync-elsewhere",
        ),
        pytest.param(
            Fault(
                "partial-warp",
                (Place(HERE, 0, (33,)),),
                operation="shfl_sync",
                warp=1,
                lane=1,
                source=7,
                absence="elsewhere",
                count=3,
            ),
            FLAT,
            "k.py:12: thread 33 of block 0: shfl_sync in warp 1: lane 1 reads from lane 7, which does not take part:"
            " the value is undefined, and shows here as NaN or -1 (2 more such reads)",
            "every lane that is read from",
            id="partial-warp",
        ),
        pytest.param(
            Fault(
                "warp-sync",
                (Place(HERE, 0, (33,)), Place(THERE, 0, (32,))),
                operation="shfl_down_sync",
                warp=1,
                lane=1,
                source=20,
                absence="no thread",
                used="store",
                array="out",
                element="out[4]",
            ),
            FLAT,
            "k.py:12: thread 33 of block 0: shfl_down_sync in warp 1: lane 1 reads from lane 20, which does not exist "
            "(the block has 64 threads); the value is undefined, and thread 32 stores it to out[4] on line 20",
            "only where its source lane takes part",
            id="warp-sync-used",
        ),
        pytest.param(
            Fault(
                "uninitialized-read",
                (Place(HERE, 2, (3,), "ld"),),
                array="tile",
                element="tile[3]",
                at=(3,),
                space="shared",
                written=32,
                elements=64,
                count=2,
            ),
            FLAT,
            "k.py:12: thread 3 of block 2 reads tile[3] (shared memory), which nobody has written; "
            "32 of its 64 elements are written so far (1 more of these lanes does too)",
            "cuda.syncthreads() before others read it",
            id="uninitialized-read",
        ),
        pytest.param(
            Fault("negative-index", (Place(HERE, 0, (0,), "st"),), array="x", axis=1, index=-1, extent=8, count=1),
            FLAT,
            "k.py:12: thread 0 of block 0 writes x at index -1 along axis 1, which counts from the end: index 7 of 8",
            "if index >= 0",
            id="negative-index",
        ),
        pytest.param(
            Fault(
                "shared-overlap",
                (Place(HERE, 0, (5,), "ld"),),
                array="a",
                element="a[5]",
                at=(5,),
                other="b",
                declared=4,
                count=1,
            ),
            FLAT,
            "k.py:12: thread 5 of block 0 reads a[5], whose bytes were last written through b (declared on line 4): "
            "all dynamic shared arrays start at one place",
            "its own part of one",
            id="shared-overlap",
        ),
        pytest.param(
            Fault(
                "exited-before-barrier", (Place(HERE, 0, (0, 1), "syncthreads"),), elsewhere=((THERE, "return", (2,)),)
            ),
            FLAT,
            "k.py:12: threads 0, 1 of block 0 pass syncthreads without the others: thread 2 has returned on line 20",
            "since Volta",
            id="exited-before-barrier",
        ),
        pytest.param(
            Fault("warp-sync", (Place(HERE, 0, (3,)),), operation="all_sync", warp=0, lane=3, unnamed=True),
            FLAT,
            "k.py:12: thread 3 of block 0: all_sync in warp 0: "
            "lane 3 runs it, but the mask it passes does not name lane 3",
            "its own mask",
            id="warp-sync-unnamed",
        ),
        pytest.param(
            Fault("deadlock", (), elsewhere=((HERE, "syncwarp", 2, (4,)),)),
            FLAT,
            "nobody can go on: thread 4 of block 2 waits at syncwarp on line 12",
            "wait for others",
            id="deadlock",
        ),
        pytest.param(
            Fault("step-limit", budget=1000, elsewhere=()),
            FLAT,
            "still running after the budget of 1000 steps",
            "or raise the budget with max_steps= of simulate()",
            id="step-limit",
        ),
        pytest.param(
            Fault("does-not-compile", (Place(HERE, 0, ()),), reason="no such operator"),
            FLAT,
            "k.py:12: Numba cannot compile the kernel: no such operator",
            "",
            id="does-not-compile",
        ),
        pytest.param(
            Fault("kernel-exception", (Place(HERE, 1, (4,), "raise"),), message="ValueError: no", count=3),
            FLAT,
            "k.py:12: thread 4 of block 1 reaches a `raise`: ValueError: no (as do 2 more threads)",
            "",
            id="kernel-exception",
        ),
    ],
)
def test_faults_are_told(fault: Fault, launch: Launch, message: str, mend: str) -> None:
    found = tell(fault, launch)
    assert found.message == message
    assert mend in found.mend
    assert found.kind == ("deadlock" if fault.kind == "step-limit" else fault.kind)
    assert (found.kernel, found.launch, found.replay) == ("k", launch, Replay("last", 3))


def test_sites_are_where_it_happened_and_where_the_others_wait() -> None:
    fault = Fault(
        "barrier-divergence",
        (Place(HERE, 2, (0, 1), "syncthreads"),),
        missing=(2,),
        waiting=(0, 1),
        elsewhere=((THERE, "syncwarp", (2,)),),
        exited=(),
    )
    found = tell(fault)
    assert found.sites == (Site("k.py", 12, "k", 2, 0, "syncthreads"), Site("k.py", 20, "k", 2, 2, "syncwarp"))
    assert found.lines == (12, 20)


def test_a_place_inside_a_device_function_names_the_caller() -> None:
    pos = Pos("k.py", 3, via=Pos("k.py", 30))
    found = tell(Fault("out-of-bounds", (Place(pos, 0, (0,), "ld"),), array="x", axis=0, index=8, extent=8, count=1))
    assert found.message.startswith("k.py:3 (called from line 30): thread 0 of block 0 reads x at index 8")
    assert found.element == (8,)


def test_launch_and_replay_say_what_to_pass() -> None:
    assert str(Launch((4, 1, 1), (16, 4, 1), 512)) == "grid 4, block (16, 4, 1), 512 bytes of dynamic shared memory"
    assert str(Replay("random", 3)) == "orders=('random',), seed=3"


# -- launch limits


def program(shared: int = 0) -> Program:
    allocs = {"tile": Alloc("tile", "shared", shared, 16, "f4", (shared // 4,), HERE)} if shared else {}
    return Program("k", "numba", HERE, allocs=allocs)


@pytest.mark.parametrize(
    ("grid", "block", "shared", "dynamic", "words"),
    [
        ((0, 1, 1), (32, 1, 1), 0, 0, "grid x is 0, but a launch needs at least 1"),
        ((1, 1, 1), (32, -1, 1), 0, 0, "block y is -1"),
        ((1, 1, 1), (1025, 1, 1), 0, 0, "block x is 1025, but 1024 is the most"),
        ((1, 1, 1), (1, 1, 65), 0, 0, "block z is 65, but 64 is the most"),
        ((1, 1, 1), (32, 33, 1), 0, 0, "the number of threads in a block is 1056"),
        ((2**31, 1, 1), (32, 1, 1), 0, 0, "grid x is 2147483648"),
        ((1, 65536, 1), (32, 1, 1), 0, 0, "grid y is 65536"),
        ((1, 1, 1), (32, 1, 1), 48 * 1024 + 16, 0, "static shared memory is 49168 bytes"),
        ((1, 1, 1), (32, 1, 1), 0, 227 * 1024 + 1, "shared memory is 232449 bytes"),
        ((1, 1, 1), (32, 1, 1), 16, 227 * 1024, "a block has at most 232448"),
        ((1, 1, 1), (32, 1, 1), 0, -1, "it cannot be negative"),
    ],
)
def test_launch_limits(grid: tuple[int, ...], block: tuple[int, ...], shared: int, dynamic: int, words: str) -> None:
    with pytest.raises(Fault) as caught:
        check_limits(program(shared), grid, block, dynamic)  # type: ignore[arg-type]
    assert caught.value.kind == "launch-limit"
    assert words in tell(caught.value).message


@pytest.mark.parametrize(
    ("grid", "block", "shared", "dynamic"),
    [
        ((2**31 - 1, 1, 1), (1024, 1, 1), 0, 0),
        ((1, 65535, 65535), (1, 16, 64), 0, 0),
        ((1, 1, 1), (1, 1, 1), 48 * 1024, 179 * 1024),
    ],
)
def test_largest_launches(grid: tuple[int, ...], block: tuple[int, ...], shared: int, dynamic: int) -> None:
    check_limits(program(shared), grid, block, dynamic)  # type: ignore[arg-type]
