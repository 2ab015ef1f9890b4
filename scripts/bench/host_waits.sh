#!/usr/bin/env bash
# Shows that no step of an epoch waits for the GPU: two runs with five epochs each, one with ten times
# the steps, make the same number of waiting calls, counted from outside by count_waits.c; and the
# program's own count inside the epochs (metrics.csv) is 0.
#     scripts/bench/host_waits.sh build/release/dqn-train configs/trading.yaml
set -euo pipefail
program=$1 config=$2
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
counter=${COUNT_WAITS:-$work/count_waits.so}
[ -e "$counter" ] || cc -shared -fPIC -o "$counter" "$here/count_waits.c" -ldl

run() { # run NAME EPOCH_STEPS
  LD_PRELOAD=$counter "$program" "$config" --device cuda --quiet --name "$1" --set "output=$work" \
    --set "train.epoch_steps=$2" --set "train.env_steps=$((5 * $2))" --set eval.every_epochs=5 \
    2>&1 | grep '^host waits' | sed "s/^/$1: /"
}
run short 20000
run long 200000
for name in short long; do
  awk -F, -v name="$name" 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == "host_waits") column = i }
    NR > 1 { sum += $column } END { print name ": host waits inside the epochs by the program: " sum }' \
    "$work/$name-1/metrics.csv"
done
