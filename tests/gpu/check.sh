#!/usr/bin/env bash
# The checks that need a card, in one slot of 15 minutes: `bash tests/gpu/check.sh [RESULTS] [WHEELS]`.
#
# RESULTS (default: $OUT, else ./results) takes, as the run goes on, so that one that is cut short leaves what it had:
#   results.jsonl  everything, one JSON object a line (record.py)     check.log  all that was printed
#   summary.md     what passed, failed, was skipped, and the tables   gpu.xml    the reports of pytest
#   ncu.csv        Nsight Compute's counts, where it is to be had
# WHEELS is a folder of wheels for a machine that reaches no package registry: they go to a folder of their own, without
# their dependencies, ahead of what is installed.
#
# The machine needs a driver and Python; what else is missing is installed into a virtual environment, if a registry
# answers.  torch is measured where it is there; it is never installed.  Variables:
#   PYTHON   the interpreter (default: python3)
#   STEPS    which of: probe compile tests sectors bench summary (default: all, in this order)
#   SECONDS_IN_ALL   when to stop (default: 840); each step has a limit of its own, too
# Exit status 1 if anything failed, or if there is no GPU.
set -uo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
OUT=${1:-${OUT:-$PWD/results}}
wheels=${2:-}
python=${PYTHON:-python3}
steps=" ${STEPS:-probe compile tests sectors bench summary} "
seconds=${SECONDS_IN_ALL:-840}
for_summary=15
works=yes
failed=0
mkdir -p "$OUT"
OUT=$(cd "$OUT" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export OUT PYTHONPATH=$PWD PYTHONUNBUFFERED=1 CI=true PIP_DISABLE_PIP_VERSION_CHECK=1
[[ $steps == *" probe "* ]] && rm -f "$OUT"/{results.jsonl,summary.md,gpu.xml,ncu.csv,check.log}
exec > >(tee -a "$OUT/check.log") 2>&1

note() { printf '%s\n' "$1" >> "$OUT/results.jsonl"; }
left() { echo $((seconds - for_summary - SECONDS)); }

# step NAME LIMIT COMMAND...: run it, at most LIMIT seconds and what is left of all; note how it ended
step() {
    local name=$1 limit=$2 begin=$SECONDS status=0 why=
    shift 2
    ((limit < $(left))) || limit=$(left)
    if ((limit < 5)); then
        printf '\n== %s: no time left\n' "$name"
        note "{\"kind\": \"step\", \"step\": \"$name\", \"status\": 1, \"seconds\": 0, \"why\": \"no time was left\"}"
        failed=1
        return 1
    fi
    printf '\n== %s (at most %d s)\n' "$name" "$limit"
    timeout --signal=INT --kill-after=15 "$limit" "$@" || status=$?
    case $status in
        0) ;;
        124 | 137) why="stopped after $limit s" ;;
        *) why="exit status $status" ;;
    esac
    note "{\"kind\": \"step\", \"step\": \"$name\", \"status\": $status, \"seconds\": $((SECONDS - begin)), \"why\": \"$why\"}"
    ((status == 0)) || failed=1
    return "$status"
}

wanted() { [[ $steps == *" $1 "* ]]; }

# -- is there a card, and what runs on it ------------------------------------------------------------------------------

found=$("$python" tests/gpu/driver.py) || works=no
[[ -n $found ]] && note "{\"kind\": \"fact\", ${found#\{}"
if [[ $works == no ]]; then
    why=$(sed -nE 's/.*"error": "([^"]*)".*/\1/p' <<< "$found")
    printf 'no GPU: nothing was checked (%s)\n' "${why:-$python did not run}"
    note '{"kind": "skipped", "what": "everything", "why": "no GPU"}'
    printf '# No GPU\n\n%s: nothing was checked.\n' "${why:-$python did not run}" > "$OUT/summary.md"
    exit 1
fi
printf '%s\n' "$found"
nvidia-smi || true

if [[ -n $wheels ]]; then
    "$python" -m pip install --quiet --no-index --no-deps --no-compile --upgrade --target "$scratch/site" "$wheels"/*.whl
    PYTHONPATH=$PWD:$scratch/site
fi
if ! lacking=$("$python" tests/gpu/ready.py); then
    printf 'this interpreter lacks:\n%s\n' "$lacking"
    extra=cuda12
    [[ $found =~ \"cuda\":\ *1[3-9] ]] && extra=cuda13
    if [[ -z $wheels ]] && "$python" -m venv --system-site-packages "$scratch/venv" &&
        step install 240 "$scratch/venv/bin/python" -m pip install --quiet --retries 1 --timeout 10 -e ".[$extra]" pytest hypothesis
    then
        python=$scratch/venv/bin/python
    else
        failed=0 # what is there may do; if not, the steps will say so
        echo "no package registry was reached, or wheels were given: carrying on with what there is"
        note "{\"kind\": \"skipped\", \"what\": \"installation\", \"why\": \"lacking: ${lacking//$'\n'/, }\"}"
    fi
fi

# -- the steps -----------------------------------------------------------------------------------------------------------

# Options by hand: that machine need not have the plugins that pyproject.toml configures.  A process for each file: an
# illegal access in one does not cost the others.
tests() {
    local file most=${1:-25}
    mkdir -p "$OUT/parts"
    for file in test_kernels_on_device test_paths_on_device test_streams_on_device test_hosts_on_device test_large_arrays; do
        step "$file" 100 "$python" -m pytest -c /dev/null --rootdir "$PWD" --import-mode=importlib -p no:cacheprovider -q -ra \
            --tb=short --maxfail="$most" --junitxml="$OUT/parts/$file.xml" "tests/gpu/$file.py"
    done
}

capability=$(sed -E 's/.*"capability": "([0-9.]+)".*/\1/' <<< "$found")
if wanted probe; then step probe 90 "$python" tests/gpu/probe.py || works=no; fi
if wanted compile && [[ $works == yes ]]; then step compile 150 "$python" tests/gpu/precompile.py "$capability"; fi
if wanted tests; then
    if [[ $works == yes ]]; then tests; else tests 3; fi
fi
if [[ $works == yes ]]; then
    if wanted sectors; then step sectors 120 "$python" tests/gpu/counters.py 110; fi
    if wanted bench; then
        limit=$(($(left) < 360 ? $(left) : 360))
        step bench "$limit" "$python" tests/benchmarks/bench_gpu.py --compiled --seconds $((limit - 30))
    fi
else
    note '{"kind": "skipped", "what": "sectors and benchmarks", "why": "the probe failed"}'
fi

if wanted summary; then
    printf '\n== summary\n'
    "$python" tests/gpu/summary.py "$OUT" || failed=1
    rm -rf "$OUT/parts"
fi
printf '\nfiles in %s:\n' "$OUT"
ls -l "$OUT"
exit "$failed"
