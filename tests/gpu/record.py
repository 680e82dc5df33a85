"""What a check on a card finds out: one JSON object a line of $OUT/results.jsonl.

Each line is written at once, so that a run that is cut short leaves what it had.  ``kind`` says what a line is: fact,
probe, step, test, measurement, sectors, bench, or skipped (what could not be done, and why).
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

FILE = "results.jsonl"


def note(kind: str, **facts: Any) -> None:
    """Append a line, if $OUT names a folder."""
    if out := os.environ.get("OUT"):
        with (Path(out) / FILE).open("a", encoding="utf-8") as file:
            file.write(json.dumps({"kind": kind, **facts}, default=str) + "\n")


def read(folder: Path) -> list[dict[str, Any]]:
    """All lines so far; one that was cut in the middle does not count.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> (folder / FILE).write_text('{"kind": "fact", "gpu": null}\\n{"kind": "te')
    42
    >>> read(folder)
    [{'kind': 'fact', 'gpu': None}]
    """
    path, found = folder / FILE, []
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else ():
        try:
            found.append(json.loads(line))
        except ValueError:  # the run ended here
            continue
    return found
