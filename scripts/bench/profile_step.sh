#!/usr/bin/env bash
# Prints the kernels of a few training steps in order: microseconds, grid, block, name. ncu runs one
# kernel at a time and adds about 2 us to each, so the sum is more than a step takes and branches
# that run side by side in the graph do not show: compare kernels, and time steps by dqn-bench.
#     scripts/bench/profile_step.sh build/release/dqn-bench
# KERNELS: how many to print (default 60); SKIP: how many to pass over, the set-up (default 40).
set -euo pipefail
bench=$1
kernels=${KERNELS:-60} skip=${SKIP:-40}
command -v ncu >/dev/null || { echo "ncu is not on the PATH; it is part of the CUDA toolkit" >&2; exit 1; }

profile() { # profile TITLE BENCH_ARGUMENTS...
  echo "## $1"
  shift
  ncu --clock-control none --graph-profiling node --csv --metrics gpu__time_duration.sum \
    --launch-skip "$skip" --launch-count "$kernels" "$bench" "$@" 2>/dev/null | python3 -c '
import csv, sys
lines = [line for line in sys.stdin if line.startswith("\"")]
total = 0.0
rows = list(csv.DictReader(lines))
for row in rows:
    us = float(row["Metric Value"].replace(",", ""))
    us /= {"ns": 1000.0, "nsecond": 1000.0, "us": 1.0, "usecond": 1.0}[row["Metric Unit"]]
    total += us
    print("%8.2f %16s %14s %s" % (us, row["Grid Size"], row["Block Size"], row["Kernel Name"][:96]))
print("%8.2f us in %d kernels" % (total, len(rows)))'
}

rows="--set replay.capacity=20000"
for batch in 256 1024 4096; do
  profile "update, batch $batch" step $rows --set "learner.batch=$batch"
done
profile "draw, gather, priorities, batch 256" per $rows
profile "vector step, cartpole, 4096 lanes" collect $rows --set env.name=cartpole --set env.lanes=4096
profile "vector step, trading, 4096 lanes" collect $rows --set env.name=trading --set env.lanes=4096
