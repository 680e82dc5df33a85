"""The pictures: what stands on them, counted on the artists, and what is said in words."""

from __future__ import annotations

import re
from collections import namedtuple
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.colors import same_color
from numba import cuda, float32

from simulator import NotRecorded, Trace, draw, simulate
from simulator.draw import palette
from simulator.draw.reduction import reductions


@cuda.jit
def strided(x, y, stride, offset):
    y[cuda.threadIdx.x] = x[cuda.threadIdx.x * stride + offset]


@cuda.jit
def rounds(x, y):
    for j in range(cuda.threadIdx.x, x.shape[1], cuda.blockDim.x):
        y[cuda.blockIdx.x, j] = x[cuda.blockIdx.x, j]


@cuda.jit
def half_warp(x):
    if cuda.threadIdx.x % 2 == 0:
        x[cuda.threadIdx.x] = 1


@cuda.jit
def butterfly(x, y, first, second, third):
    t = cuda.threadIdx.x
    total = float32(0)
    for j in range(t, x.shape[0], cuda.blockDim.x):
        total += x[j] * x[j]
    total += cuda.shfl_xor_sync(0xFF, total, first)
    total += cuda.shfl_xor_sync(0xFF, total, second)
    total += cuda.shfl_xor_sync(0xFF, total, third)
    if t == 0:
        y[0] = total


@cuda.jit
def shared_tree(x, y):
    s = cuda.shared.array(128, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncthreads()
    half = cuda.blockDim.x // 2
    while half > 0:
        if t < half:
            s[t] += s[t + half]
        cuda.syncthreads()
        half //= 2
    if t == 0:
        y[0] = s[0]


@cuda.jit
def two_pass(x, y):
    """Eight threads, a variance: every lane has each total."""
    t = cuda.threadIdx.x
    value = x[t]
    mean = value
    for k in range(3):
        mean += cuda.shfl_xor_sync(0xFF, mean, 1 << k)
    mean /= float32(8)
    square = (value - mean) * (x[t] - mean)
    for k in range(3):
        square += cuda.shfl_xor_sync(0xFF, square, 1 << k)
    y[t] = square


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    pyplot.close("all")


def gids(ax: Axes, begin: str) -> dict[str, Any]:
    """The artists whose gid begins so."""
    return {a.get_gid(): a for a in ax.get_children() if (a.get_gid() or "").startswith(begin)}


def texts(ax: Axes) -> list[str]:
    return [text.get_text() for text in ax.texts]


def run_strided(stride: int = 1, offset: int = 0, threads: int = 32, dtype: Any = np.float32) -> Trace:
    x = np.zeros(stride * threads + offset + 1, dtype)
    return simulate(strided)[1, threads](x, np.zeros(threads, dtype), stride, offset)


# -- the coalescing strip --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stride", "offset", "dtype", "sectors", "ideal", "lines"),
    [
        (1, 0, np.float32, 4, 4, 1),
        (1, 1, np.float32, 5, 4, 2),
        (2, 0, np.float32, 8, 4, 2),
        (32, 0, np.float32, 32, 4, 32),
        (100, 0, np.float32, 32, 4, 32),
        (0, 5, np.float32, 1, 1, 1),
        (1, 0, np.float16, 2, 2, 1),
        (1, 0, np.float64, 8, 8, 2),
        (1, 1, np.float64, 9, 8, 3),
    ],
)
def test_strip_fills_the_sectors_that_are_fetched(
    stride: int, offset: int, dtype: Any, sectors: int, ideal: int, lines: int
) -> None:
    trace = run_strided(stride, offset, dtype=dtype)
    ax = draw.coalescing(trace, "x")
    drawn = gids(ax, "sector-").values()
    filled = [patch for patch in drawn if same_color(patch.get_facecolor(), palette.FETCHED)]
    assert (len(filled), len(drawn)) == (sectors, 4 * lines)
    assert len(filled) == trace.total("x").sectors
    many = "sector" if sectors == 1 else "sectors"
    assert f"load of x: 1 request, {sectors} {many}, ideal {ideal}" in texts(ax)
    assert len(gids(ax, "lane-")) == len(gids(ax, "arrow-")) == 32
    assert len(gids(ax, "bytes-")) == (1 if stride == 0 else 32)


def test_strip_marks_used_bytes_where_they_stand() -> None:
    ax = draw.coalescing(run_strided(2), "x")
    sector, used = gids(ax, "sector-0")["sector-0"], gids(ax, "bytes-1")["bytes-1"]
    assert used.get_width() * 8 == pytest.approx(sector.get_width())
    assert used.get_x() == pytest.approx(sector.get_x() + sector.get_width() / 4)


def test_strip_breaks_the_axis_only_where_lines_are_left_out() -> None:
    def strokes(stride: int) -> int:
        return len([line for line in draw.coalescing(run_strided(stride), "x").lines if len(line.get_xdata()) == 2])

    assert (strokes(32), strokes(64)) == (0, 2 * 31)


def test_strip_shows_inactive_lanes_as_such() -> None:
    trace = simulate(half_warp)[1, 8](np.zeros(8, np.float32))
    ax = draw.coalescing(trace, "x")
    hatched = [gid for gid, patch in gids(ax, "lane-").items() if patch.get_hatch()]
    assert sorted(gids(ax, "arrow-")) == ["arrow-0", "arrow-2", "arrow-4", "arrow-6"]
    assert len(hatched) == 28
    assert "store of x: 1 request, 1 sector, ideal 1" in texts(ax)


def test_strip_says_in_words_what_it_draws() -> None:
    said = draw.Strip.of(run_strided(1, 1), "x").describe()
    assert re.search(r"active lanes: 32 of 32", said)
    assert re.findall(r"^ +(\d+) +(\S+) +(\d+)  (\S+)$", said, re.MULTILINE) == [
        ("0", "0..31", "28", "0-6"),
        ("1", "32..63", "32", "7-14"),
        ("2", "64..95", "32", "15-22"),
        ("3", "96..127", "32", "23-30"),
        ("4", "128..159", "4", "31"),
    ]


def test_strip_chooses_request_warp_block_and_line() -> None:
    x = np.zeros((2, 256), np.float32)
    trace = simulate(rounds)[2, 64](x, x.copy())
    strip = draw.Strip.of(trace, "x", block=1, warp=1, request=2)
    assert strip.elements == tuple(range(256 + 32 + 128, 256 + 64 + 128))
    assert "request 3 of 4 by warp 1 of block 1" in strip.note
    last = draw.Strip.of(trace, "x", block=1, warp=1, request=-1)
    assert last.elements[0] == 256 + 32 + 192
    for wrong, said in (
        ({"request": 4}, "made 4 requests: there is no request 4"),
        ({"line": 3}, "line 3 does not access 'x'; line "),
        ({"warp": 2}, "warp 2 of block 0 holds no access"),
    ):
        with pytest.raises(draw.NothingToDraw, match=said):
            draw.coalescing(trace, "x", **wrong)
    with pytest.raises(draw.NothingToDraw, match="no array 'z'; it has x and y"):
        draw.coalescing(trace, "z")


# -- the index map ---------------------------------------------------------------------------------------------------


def test_map_of_four_threads_and_sixteen_features() -> None:
    x = np.zeros((1, 16), np.float32)
    ax = draw.indices(simulate(rounds)[1, 4](x, x.copy()), "x")
    cells = gids(ax, "cell-")
    assert len(cells) == 16
    columns = {float(cells[f"cell-{t}-0"].get_x()) for t in range(4)}
    assert len(columns) == 4
    for thread in range(4):
        fills = {cells[f"cell-{thread}-{r}"].get_facecolor() for r in range(4)}
        below = {gids(ax, "element-")[f"element-{thread + 4 * r}"].get_facecolor() for r in range(4)}
        assert fills == below
        assert len(fills) == 1
    assert [text for text in texts(ax) if text.isdecimal()] == [
        *(str(n) for t in range(4) for n in (t, t, t + 4, t + 8, t + 12)), *map(str, range(16)),
    ]  # fmt: skip


def test_map_of_a_large_launch_says_what_it_leaves_out() -> None:
    x = np.zeros((1, 4096), np.float32)
    trace = simulate(rounds)[1, 256](x, x.copy())
    ax = draw.indices(trace, "x")
    assert {"cell-0-0", "cell-255-15"} <= set(gids(ax, "cell-"))
    assert "…" in texts(ax)
    assert any(text.startswith("256 threads, 16 rounds, 4096 elements of x; white:") for text in texts(ax))
    assert len(gids(draw.indices(trace, "x", threads=5, rounds=3), "cell-")) == 4 * 2


def test_map_marks_rounds_in_which_a_thread_does_not_read() -> None:
    x = np.zeros((1, 9), np.float32)
    plan = draw.IndexMap.of(simulate(rounds)[1, 4](x, x.copy()), "x")
    assert plan.cells == ((0, 4, 8), (1, 5), (2, 6), (3, 7))
    ax = plan.draw()
    assert [text for text in texts(ax) if text == "–"] == ["–"] * 3
    assert gids(ax, "cell-3-2")["cell-3-2"].get_linestyle() == "--"
    assert "thread 3: 3, 7" in plan.describe()


def test_map_counts_the_threads_that_share_an_element() -> None:
    ax = draw.indices(run_strided(0, 5, threads=8), "x")
    assert "×8" in texts(ax)
    assert list(gids(ax, "element-")) == ["element-5"]


# -- the reduction tree ----------------------------------------------------------------------------------------------


def run_butterfly(*offsets: int, features: int = 16) -> Trace:
    x = np.arange(1, features + 1, dtype=np.float32)
    return simulate(butterfly, lineage=True)[1, 8](x, np.zeros(1, np.float32), *offsets)


def test_tree_has_a_row_per_exchange_and_the_partial_values() -> None:
    ax = draw.tree(run_butterfly(4, 2, 1), "y")
    assert len(gids(ax, "partial-")) == 8 + 4 + 2 + 1
    assert len([gid for gid in gids(ax, "edge-") if gid.endswith("shuffle")]) == 4 + 2 + 1
    assert len(gids(ax, "element-")) == 16
    assert {"4 apart", "2 apart", "1 apart", "1496", "y[0] = 1496"} <= set(texts(ax))
    assert "82" in texts(ax)  # 1² + 9², thread 0's register
    assert "✓ each of the 16 elements is in the total exactly once" in texts(ax)


def test_tree_shows_missing_and_doubled_elements_of_a_wrong_shuffle() -> None:
    plan = draw.TreePlan.of(run_butterfly(4, 1, 1), "y")
    assert plan.missing == [2, 3, 6, 7, 10, 11, 14, 15]
    assert plan.doubled == [0, 1, 4, 5, 8, 9, 12, 13]
    ax = plan.draw()
    elements = gids(ax, "element-")
    assert len(elements) == 16
    assert all(same_color(patch.get_edgecolor(), palette.WRONG) for patch in elements.values())
    assert {gid for gid, patch in elements.items() if patch.get_linestyle() == "--"} == {
        f"element-{e}" for e in plan.missing
    }
    assert texts(ax).count("lost") == 8
    assert any(text.startswith("✗ missing: x[2], x[3]") for text in texts(ax))


def test_tree_takes_what_is_expected_from_the_caller() -> None:
    trace = run_butterfly(4, 2, 1)
    plan = draw.TreePlan.of(trace, "y", expected=range(18))
    assert plan.missing == [16, 17]
    assert draw.TreePlan.of(trace, "y", expected=[0]).verdict.startswith("each of")


@pytest.mark.parametrize("threads", [1, 2, 16, 64, 128])
def test_tree_through_shared_memory_at_any_size(threads: int) -> None:
    x = np.arange(threads, dtype=np.float32)
    plan = draw.TreePlan.of(simulate(shared_tree, lineage=True)[1, threads](x, np.zeros(1, np.float32)), "y")
    assert plan.verdict.endswith("in the total exactly once")
    assert plan.tree.value == x.sum()
    ax = plan.draw()
    if threads > 64:  # folded, and says so
        assert len(plan.columns) == 32
        assert "128 threads, folded" in texts(ax)
    else:
        assert len(gids(ax, "partial-")) == max(2 * threads - 1, 1)


def test_tree_of_either_pass() -> None:
    x = np.arange(8, dtype=np.float32)
    trace = simulate(two_pass, lineage=True)[1, 8](x, np.zeros(8, np.float32))
    mean, variance = (draw.TreePlan.of(trace, "y", 5, reduction=k) for k in (0, 1))
    assert (mean.tree.value, variance.tree.value) == (28, 42)
    for plan in (mean, variance):
        assert plan.verdict == "each of the 8 elements is in the total exactly once"
        assert len(plan.tree.partials) == 15
    assert "first of 2 passes" in mean.title
    assert "second of 2 passes" in variance.title


def test_tree_says_in_words_what_it_draws() -> None:
    said = draw.TreePlan.of(run_butterfly(4, 2, 1), "y").describe()
    assert "total, thread 0: 1496 from thread 0 by register and thread 1 by shuffle" in said
    assert "stage 0, thread 3: 160 from 3, 11" in said


def test_tree_needs_lineage_and_an_input() -> None:
    with pytest.raises(NotRecorded, match="lineage=True"):
        draw.tree(run_strided(), "y")
    trace = run_butterfly(4, 2, 1)
    with pytest.raises(draw.NothingToDraw, match="no array 'z'"):
        draw.tree(trace, "z")
    with pytest.raises(draw.NothingToDraw, match=r"y\[0\]: no element of w went into it"):
        draw.tree(trace, "y", source="w")


def test_tree_of_an_element_or_a_pass_that_is_not_there() -> None:
    trace = simulate(two_pass, lineage=True)[1, 8](np.arange(8, dtype=np.float32), np.zeros(8, np.float32))
    assert draw.TreePlan.of(trace, "y", -1).output == draw.TreePlan.of(trace, "y", 7).output
    for index in [8, -9, (0, 0), ()]:
        with pytest.raises(IndexError, match="y"):
            draw.tree(trace, "y", index)
    for number in [2, -3]:
        with pytest.raises(draw.NothingToDraw, match=rf"no reduction {number}: there are 2 passes"):
            draw.tree(trace, "y", reduction=number)


def test_reductions_of_a_graph_by_hand() -> None:
    """Two threads of two elements each; thread 1 hands its sum over twice."""
    Node = namedtuple("Node", "id kind value parents block thread line array element")
    rows: list[Any] = []

    def node(kind: str, thread: int, *parents: int, element: int = -1) -> int:
        rows.append(
            Node(len(rows), kind, float(len(rows)), parents, 0, thread, 1, "x" if element >= 0 else "", element)
        )
        return len(rows) - 1

    own = [node("add", t, node("input", t, element=t), node("input", t, element=t + 2)) for t in (0, 1)]
    once = node("add", 0, own[0], node("shfl", 0, own[1]))
    twice = node("add", 0, once, node("shfl", 0, own[1]))
    (tree,) = reductions(rows, twice)
    assert tree.elements == {0: 1, 2: 1, 1: 2, 3: 2}
    assert tree.total.sources[1, "shuffle"] == 2


# -- all pictures ----------------------------------------------------------------------------------------------------


def pictures() -> dict[str, Any]:
    x = np.zeros((1, 16), np.float32)
    flat = run_strided(3)
    return {
        "strip": draw.Strip.of(flat, "x"),
        "map": draw.IndexMap.of(simulate(rounds)[1, 4](x, x.copy()), "x"),
        "tree": draw.TreePlan.of(run_butterfly(4, 2, 1), "y"),
        "wrong tree": draw.TreePlan.of(run_butterfly(4, 1, 1), "y"),
    }


@pytest.mark.parametrize("name", ["strip", "map", "tree", "wrong tree"])
def test_no_words_overlap_or_leave_the_figure(name: str) -> None:
    ax = pictures()[name].draw()
    canvas = ax.figure.canvas
    canvas.draw()
    frame = ax.figure.bbox
    boxes = [(text.get_text(), text.get_window_extent(canvas.get_renderer())) for text in ax.texts if text.get_text()]
    for number, (text, box) in enumerate(boxes):
        assert frame.x0 <= box.x0 <= box.x1 <= frame.x1, text
        assert frame.y0 <= box.y0 <= box.y1 <= frame.y1, text
        for other, around in boxes[number + 1 :]:
            inner = box.expanded(0.92, 0.7)
            assert not inner.overlaps(around.expanded(0.92, 0.7)), (text, other)


@pytest.mark.parametrize("name", ["strip", "map", "tree"])
def test_pictures_go_on_axes_that_the_caller_brings(name: str) -> None:
    _, (left, right) = pyplot.subplots(1, 2)
    plan = pictures()[name]
    assert plan.draw(left) is left
    assert len(left.patches) > 10
    assert not right.patches


def test_neighbouring_threads_differ_for_colour_blind_readers() -> None:
    """Two of the first eight hues differ in lightness or along the blue-yellow axis, which most readers keep."""
    from matplotlib.colors import to_rgb

    for count in (2, 4, 8):
        fills = [to_rgb(palette.thread_colour(t, count)) for t in range(count)]
        for one, other in pairwise(fills):
            lightness = abs(sum(one) - sum(other)) / 3
            assert max(lightness, abs(one[2] - other[2])) > 0.05
