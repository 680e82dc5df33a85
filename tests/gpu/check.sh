#!/usr/bin/env bash
# The checks that need a card, in one go of a few minutes: `bash tests/gpu/check.sh [RESULTS] [WHEELS]`.
#
# RESULTS (default: $OUT, else ./results) takes environment.txt, pytest.log, gpu.xml and gpu.json.
# WHEELS is a folder of wheels for a machine that reaches no package registry: they go to a folder of their own, without
# their dependencies, ahead of what is installed.  PYTHON names the interpreter (default: python3).
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
export OUT=${1:-${OUT:-$PWD/results}} PYTHONUNBUFFERED=1 CI=true
python=${PYTHON:-python3}
mkdir -p "$OUT"
OUT=$(cd "$OUT" && pwd)
export PYTHONPATH=$PWD

if [[ -n ${2:-} ]]; then
    site=$(mktemp -d)
    trap 'rm -rf "$site"' EXIT
    "$python" -m pip install --quiet --no-index --no-deps --no-compile --upgrade --target "$site" "$2"/*.whl
    PYTHONPATH=$PWD:$site
fi

{
    nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv || true
    "$python" -m pip list 2>/dev/null | grep -iE '^(numba|numba-cuda|cuda|cupy|numpy|ml[-_]dtypes|llvmlite|nvidia)' || true
    "$python" -c 'import numba, cupy, numba.cuda as c; print("imported: numba", numba.__version__, "cupy", cupy.__version__, c.__file__)'
} | tee "$OUT/environment.txt"

# Options by hand: that machine need not have the plugins that pyproject.toml configures.
"$python" -m pytest -c /dev/null --rootdir "$PWD" --import-mode=importlib -p no:cacheprovider -q -ra \
    --junitxml="$OUT/gpu.xml" tests/gpu 2>&1 | tee "$OUT/pytest.log"

if grep -q 'no GPU' "$OUT/gpu.xml"; then
    echo "no GPU was found: nothing was checked" >&2
    exit 1
fi
