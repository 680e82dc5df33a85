"""How fast the norms are on a card: `python tests/benchmarks/bench_gpu.py [--seconds S] [--only WORD] [--rounds N]`.

For each point of ``gpu_points``: our launches by every path that is open, a copy of as many bytes, and the same by
torch, torch.compile and CuPy where they are to be had.  Time is taken by replaying graphs (``gpu_clock``) over several
sets of arrays, together larger than any cache.  Before a way is timed, some of its rows are compared with float64.
Then what calls cost the host.  Every result is written to $OUT/results.jsonl at once; tables come last.

Ends by itself after S seconds, the points that matter most first.  `--compiled` measures torch.compile as well, at the
end: it takes seconds for each shape.  Without a card it says so, and exit status is 1.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from numba_norms import layer_norm, plan, reference, rms_norm
from numba_norms.arrays.dtypes import NAMED
from numba_norms.arrays.places import cupy_place
from numba_norms.gpu import device
from tests.benchmarks import gpu_peers, gpu_points, gpu_report
from tests.benchmarks.gpu_clock import Replay, cupy_replay, host_times, in_turns, torch_replay
from tests.benchmarks.gpu_points import Given, Point, Way
from tests.gpu.card import found, get, put
from tests.gpu.record import note, read
from tests.tolerances import RESULT, condition

SETS, CALLS = 3, 12
"""Sets of arrays that calls go through in turn; calls in a graph, a millisecond or so"""
PATTERN = 1 << 22
"""Random numbers that are made on the host; large arrays are this pattern, repeated, each from another start"""


@cache
def pattern(dtype: np.dtype[Any]) -> Any:
    """The numbers, on the card, twice in a row."""
    once = np.random.default_rng(0).standard_normal(PATTERN, np.float32).astype(dtype)
    return put(np.concatenate([once, once]))


def new_arrays(point: Point, seed: int) -> Given:
    """A set of arrays with numbers in them."""
    starts = itertools.count(8 * seed + 1)

    def new(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        import cupy

        array, start = cupy.ndarray(int(np.prod(shape)), dtype), next(starts) * 100_003 % PATTERN
        for at in range(0, array.size, PATTERN):
            piece = array[at : at + PATTERN]
            piece.data.copy_from_device_async(pattern(dtype)[start:].data, piece.nbytes)
        return array.reshape(shape)

    return gpu_points.arrays(point, new)


def error(point: Point, given: Given) -> float:
    """The worst error of three rows, or channels, of y: 1 is what the tests' tolerances allow, NaN counts as inf."""
    across, channels = point.norm == "rms_norm_across", point.norm == "batch_norm"
    count = point.shape[1 if channels else 2 if across else 0]
    weight, bias = (get(given[name]).astype(np.float64) for name in ("weight", "bias"))
    worst, tolerance = 0.0, RESULT[NAMED[point.dtype]]
    for index in {0, count // 2, count - 1}:
        row = (slice(None), index) if channels else (0, slice(None), index) if across else index
        x = get(given["x"][row]).astype(np.float32).ravel()
        if "update" in given:
            x = x + get(given["update"][row]).astype(np.float32)
        y = get(given["y"][row]).astype(np.float64).ravel()
        scale, shift = (weight[index], bias[index]) if channels else (weight, bias)
        if "rms" in point.norm:
            eps, expected = 1e-6, reference.rms_norm(x, eps=1e-6) * scale
        else:
            eps, expected = 1e-5, reference.layer_norm(x, eps=1e-5) * scale + shift
        allowed = tolerance.rtol * np.abs(expected) + tolerance.atol * condition(x, eps)
        worst = max(worst, float(np.nan_to_num(np.abs(y - expected) / allowed, nan=np.inf).max()))
    return worst


def our_replay(point: Point, way: Way, sets: list[Given]) -> tuple[Replay, dict[str, Any]]:
    """A way, captured over all sets, and what is known about it."""
    import cupy

    place = cupy_place(0)
    each = [gpu_points.launches(point, way.wish, given) for given in sets]

    def run(number: int) -> Callable[[], None]:
        def call() -> None:
            for launch in each[number]:
                launch.run(place)

        return call

    sets[-1]["y"].data.memset_async(0xFF, sets[-1]["y"].nbytes)  # NaN, in all of the dtypes
    cupy.cuda.Device(0).synchronize()
    replay = cupy_replay([run(number % SETS) for number in range(CALLS)])
    replay()
    worst = error(point, sets[-1])
    code = [device.load(launch.kernel, launch.args, 0).code for launch in way.launches]
    registers = {"registers": [c.registers for c in code], "spills": sum(c.spills for c in code)}
    return replay, {**way.facts, **registers, "error": worst, "wrong": worst > 4}


@cache
def left_out(what: str, why: str) -> None:
    """Note what cannot be had, once."""
    note("skipped", what=what, why=why)


def peer_replays(point: Point, sets: list[Given], compiled: bool) -> dict[str, Replay]:
    """The others, captured; what cannot be had is noted."""
    found: dict[str, Replay] = {}

    def take(name: str, make: Callable[[], Replay]) -> None:
        try:
            found[name] = make()
        except gpu_peers.LeftOut as why:
            left_out(name, str(why))
        except Exception as broken:  # noqa: BLE001  # a peer that fails must not cost us the rest
            note("skipped", what=f"{name}: {point}", why=f"{type(broken).__name__}: {broken}"[:2000])

    def cycled(calls: list[Any]) -> list[Any]:
        return [calls[number % SETS] for number in range(CALLS)]

    take("torch", lambda: torch_replay(cycled(gpu_peers.torch_calls(point, sets, compiled=False))))
    if compiled:
        take("torch.compile", lambda: torch_replay(cycled(gpu_peers.torch_calls(point, sets, compiled=True))))
    take("CuPy", lambda: cupy_replay(cycled(gpu_peers.cupy_calls(point, sets))))
    return found


def measure(point: Point, rounds: int, compiled: bool) -> None:
    """All that is measured of a point, in turns."""
    import cupy

    sets = [new_arrays(point, seed) for seed in range(SETS)]
    copies = [gpu_peers.copy_of(point, given) for given in sets]
    peers = peer_replays(point, sets, compiled)
    copy = cupy_replay([copies[number % SETS] for number in range(CALLS)])  # overwrites y: before our results
    facts: dict[str, dict[str, Any]] = {"copy": {"bytes": gpu_peers.copied_bytes(point, sets[0])}}
    replays: dict[str, Replay] = {"copy": copy, **peers}
    ways = gpu_points.ways(point, sets[0])
    for way in [way for way in ways if way.chosen] if compiled else ways:
        replays[way.name], facts[way.name] = our_replay(point, way, sets)
    for name, times in in_turns(replays, rounds).items():
        known = {"bytes": point.least_bytes, **facts.get(name, {})}
        note("bench", **{"point": str(point), "norm": point.norm, "dtype": point.dtype, "shape": point.shape,
                         "way": name, "rounds": rounds, **known, **times._asdict()})  # fmt: skip
    del sets, copies, replays, peers, copy, ways
    cupy.get_default_memory_pool().free_all_blocks()


def measure_host() -> None:
    """What calls cost the host, on 64 rows of 4096: small enough that the card keeps up."""
    import cupy

    from numba_norms.gpu.parameters import Block, flat

    point = Point("rms_norm", "float16", (64, 4096))
    given = new_arrays(point, 0)
    x, weight, y = given["x"], given["weight"], given["y"]
    bound = plan(rms_norm, x, weight)
    (launch,) = gpu_points.launches(point, gpu_points.Wish(), given)
    loaded, block = device.load(launch.kernel, launch.args, 0), Block(flat(launch.args))
    calls: dict[str, Callable[[], Any]] = {
        "bare launch": lambda: loaded.start(
            launch.grid, launch.block, cupy.cuda.get_current_stream().ptr, block.address
        ),
        "launch.run": lambda: launch.run(cupy_place(0)),
        "plan": lambda: bound(x, weight),
        "plan, out=": lambda: bound(x, weight, out=y),
        "rms_norm": lambda: rms_norm(x, weight),
        "rms_norm, out=": lambda: rms_norm(x, weight, out=y),
        "layer_norm": lambda: layer_norm(x, weight),
        "rms_norm in full": lambda: rms_norm.__wrapped__(x, weight),
        "cupy.empty": lambda: cupy.empty(x.shape, x.dtype),
    }
    try:
        torch = gpu_peers.torch_on_device()
        tensor, scale = gpu_peers.as_torch(x), gpu_peers.as_torch(weight)
        calls["rms_norm of a tensor"] = lambda: rms_norm(tensor, scale)
        calls["torch's rms_norm"] = lambda: torch.nn.functional.rms_norm(tensor, (4096,), scale, 1e-6)
    except gpu_peers.LeftOut as why:
        left_out("torch on the host", str(why))
    for name, times in host_times(calls, cupy.cuda.Device(0).synchronize).items():
        note("host", call=name, **times._asdict())


def run(given: argparse.Namespace) -> None:
    """Measure until time is up; each point on its own, so that one that fails costs no other."""
    end = time.monotonic() + given.seconds
    console = Console()
    wanted = [point for point in gpu_points.points() if given.only in str(point)]
    passes = [(point, False) for point in wanted]
    if given.compiled:
        shapes = [point for point in wanted if point.dtype == "float16" and point.norm in gpu_points.ROW_NORMS[:3]]
        passes += [(point, True) for point in shapes if point.shape[1] in (*gpu_points.FEW, 65536)]
    jobs: list[tuple[str, Callable[[], None]]] = [("calls on the host", measure_host)] * (not given.only)
    jobs += [(str(p) + (", compiled" if c else ""), lambda p=p, c=c: measure(p, given.rounds, c)) for p, c in passes]
    for number, (name, job) in enumerate(jobs):
        if time.monotonic() > end:
            note("skipped", what=[name for name, _ in jobs[number:]], why="no time was left")
            console.print(f"{len(jobs) - number} of {len(jobs)} left out: no time")
            break
        begin = time.monotonic()
        try:
            job()
            console.print(f"{name}: {time.monotonic() - begin:.1f} s")
        except Exception as broken:  # noqa: BLE001
            note("skipped", what=name, why=f"{type(broken).__name__}: {broken}"[:4000])
            console.print(f"{name}: {type(broken).__name__}: {broken}", markup=False)


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--seconds", type=float, default=330, help="no point is begun after that")
    made.add_argument("--rounds", type=int, default=7)
    made.add_argument("--only", default="", metavar="WORD", help="only points whose name has this in it")
    made.add_argument("--compiled", action="store_true", help="torch.compile as well")
    made.add_argument("--out", type=Path, help="$OUT, where results go")
    return made


def main() -> int:
    given = parser().parse_args()
    if given.out:
        given.out.mkdir(parents=True, exist_ok=True)
        os.environ["OUT"] = str(given.out)
    if not found():
        print("no GPU: nothing was measured")
        note("skipped", what="benchmarks", why="no GPU")
        return 1
    run(given)
    if out := os.environ.get("OUT"):
        for table in gpu_report.rich_tables(read(Path(out))):
            Console(width=200).print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
