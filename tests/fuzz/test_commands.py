"""Random command lines, in this process: an exit status, one line for a mistake, files that are whole or untouched."""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Iterator
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from simulator.cli.app import run
from tests.fuzz.junk import fuzz

FILES = {
    "kernels.py": """
from numba import cuda

@cuda.jit
def scale(x, y, factor):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = x[i] * factor

@cuda.jit
def beyond(x):
    x[cuda.grid(1) + 1] = 1

number = 3
""",
    "script.py": """
import numpy as np
from numba import cuda
from kernels import scale
x = np.ones(32, np.float32)
scale[1, 32](x, np.zeros_like(x), np.float32(2))
""",
    "fails.py": "import nothing_of_this_name\n",
    "silent.py": "pass\n",
    "broken.py": "def f(:\n",
    "bytes.py": "\x00\x01",
    "kept.json": "before",
    "kept.svg": "before",
}

WORDS = """
- -- x 0 -1 1,2 1x4 0x0 4,32 1,32 1,32,0,64 2x2,4x4 1,2000 nan t4 h100 float32 bfloat16 complex64 object waves first
random error race-shared github tree indices coalescing kept.json kept.svg none/a.svg . a.png x=randn:float32[32]
y=zeros:float32[32] factor=3 factor=float32:2 x=full(1):int32[4] x=zeros:float32[9999999999] x= = x=[1,2]
x=integers(3,1):int8[2]
"""
OPTIONS = """
shape dtype threads path launch arg thread block watch seed order orders json figure picture array line warp request
index reduction max-steps card fail-on ignore format help version nothing
"""
TARGETS = """
rms_norm layer_norm kernels.py:scale kernels.py:beyond kernels.py:number kernels.py script.py fails.py silent.py
broken.py bytes.py none.py:x script.py:scale . :
"""
words = st.one_of(st.text(max_size=10), st.integers(-3, 10**20).map(str), st.sampled_from(WORDS.split()))
targets = st.one_of(st.sampled_from(TARGETS.split()), words)
option = st.tuples(st.sampled_from(OPTIONS.split()), words).map(lambda pair: [f"--{pair[0]}", pair[1]])
RUNNING = [
    line.split()
    for line in (
        "rms_norm --shape 2x64",
        "kernels.py:scale --launch 1,32 --arg x=randn:float32[32] --arg y=zeros:float32[32] --arg factor=float32:2",
        "kernels.py:beyond --launch 1,32 --arg x=zeros:int32[32]",
    )
]


@contextmanager
def folder() -> Iterator[Path]:
    """A folder with the files, as the working directory."""
    with tempfile.TemporaryDirectory() as name, chdir(name):
        for file, text in FILES.items():
            Path(file).write_text(text)
        yield Path(name)


def carried_out(tokens: list[str]) -> None:
    """Run a command line and see that it ends as every command line should."""
    out, err = io.StringIO(), io.StringIO()
    with folder() as here, redirect_stdout(out), redirect_stderr(err):
        status = run(tokens)
        said = err.getvalue()
        assert status in (0, 1, 2), (tokens, status)
        assert "Traceback" not in said or _of_the_script(tokens), (tokens, said)
        if status == 2 and "Traceback" not in said and "SyntaxError" not in said:  # which Python tells without one
            assert said.startswith("numba-sim: ") and len(said.splitlines()) == 1, (tokens, said)
        for kept in ("kept.json", "kept.svg"):
            text = (here / kept).read_text()
            whole = text.rstrip().endswith("</svg>") if kept.endswith("svg") else _is_json(text)
            assert text == "before" or (status in (0, 1) and whole), (tokens, status, text[:50])
        strangers = {each.name for each in here.iterdir()} - set(FILES) - {"a.png", "__pycache__"}
        assert not any(name.startswith(".") for name in strangers), (tokens, strangers)


def _of_the_script(tokens: list[str]) -> bool:
    return any(token.partition(":")[0] in FILES or token.endswith(".py") for token in tokens)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


@fuzz(
    60,
    st.sampled_from(("trace", "check", "profile", "run")),
    targets,
    st.lists(option, max_size=3),
    st.lists(words, max_size=1),
)
def test_command_lines(command: str, target: str, options: list[Any], rest: list[str]) -> None:
    carried_out([command, target, *(word for pair in options for word in pair), *rest])


@fuzz(60, st.sampled_from(("trace", "check", "profile")), st.sampled_from(RUNNING), st.lists(option, max_size=2))
def test_command_lines_that_nearly_run(command: str, base: list[str], options: list[Any]) -> None:
    carried_out([command, *base, *(word for pair in options for word in pair)])


@fuzz(40, st.lists(words, max_size=3))
def test_words_alone(tokens: list[str]) -> None:
    carried_out(tokens)
