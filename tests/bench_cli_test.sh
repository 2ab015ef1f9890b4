#!/usr/bin/env bash
# dqn-bench as a person runs it, on the CPU: text, JSON, and figures that can be true.
#     tests/bench_cli_test.sh FOLDER_OF_THE_PROGRAMS
set -uo pipefail
bin=$(cd "$1" && pwd)
bench=$bin/dqn-bench
if ! command -v python3 >/dev/null; then
  echo 'skipped: there is no python3 to read JSON with'
  exit 77
fi
# shellcheck source=tests/cli_helpers.sh
. "$(dirname "$0")/cli_helpers.sh"
small=(--set env.name=cartpole --set env.lanes=4 --set device=cpu --set threads=1 --set 'net.hidden=[16]'
  --set replay.capacity=2000 --set learner.batch=32 --set train.learning_starts=100)

# json KEYS EXPRESSION: the output is one JSON object r with these keys, in which it is true.
json() {
  python3 -c '
import json, sys
lines = open("out").read().splitlines()
assert len(lines) == 1, f"{len(lines)} lines"
r = json.loads(lines[0])
assert set(r) == set(sys.argv[1].split()), f"the keys are {sorted(r)}"
assert eval(f"({sys.argv[2]})", {"r": r}), "not true: " + sys.argv[2]
' "$1" "$2" 2>err || fail "$(tail -1 err)"
}

expect 0 "$bench" --help
says out 'per_share'
expect 2 "$bench" nonsense
expect 2 "$bench" step --agents 0
expect 2 "$bench" epoch --agents 2
# A GPU that is demanded and not to be had: as in dqn-train.
export CUDA_VISIBLE_DEVICES=
for what in step per collect epoch; do
  expect 4 "$bench" "$what" --set device=cuda --set env.name=cartpole
done
expect 4 "$bench" epoch --set replay.device=cuda --set env.name=cartpole
unset CUDA_VISIBLE_DEVICES

# ---- step, per, collect ----
common='bench unit per_s per_s_min per_s_max us n host_waits busy device_bytes device_bytes_taken device'
cpu='r["host_waits"] == 0 and r["busy"] is None and r["device_bytes_taken"] is None
  and r["device_bytes"] > 0 and 0 < r["per_s_min"] <= r["per_s"] <= r["per_s_max"]'
expect 0 "$bench" step "${small[@]}" --json
json "$common per_us per_share" "($cpu) and r['bench'] == 'step' and 0 <= r['per_share'] < 1
  and abs(r['per_share'] * r['us'] - r['per_us']) <= 1e-4 * r['us']"
expect 0 "$bench" step "${small[@]}" --json --set replay.kind=uniform
json "$common per_us per_share" "($cpu) and r['per_us'] is None and r['per_share'] is None"
expect 0 "$bench" per "${small[@]}" --json
json "$common" "($cpu) and r['bench'] == 'per'"
expect 0 "$bench" collect "${small[@]}" --json --agents 3
json "$common" "($cpu) and r['bench'] == 'collect'"
expect 0 "$bench" step "${small[@]}" --agents 3
says out '  of which prioritized replay '
says out '  memory: '
! grep -qE 'GPU|taken' out || fail 'the text has figures of a GPU'
expect 0 "$bench" per "${small[@]}" --agents 3
! grep -q prioritized out || fail 'per has a share of itself'

# ---- epoch ----
short=(--set train.epoch_steps=500 --set train.replay_ratio=0.25 --set eval.episodes=1)
expect 0 "$bench" epoch "${small[@]}" "${short[@]}" --json
json 'bench replay seconds updates_per_s env_steps_per_s sample_s priority_update_s host_waits
  host_wait_s busy device_bytes device_bytes_taken device' '
  r["bench"] == "epoch" and r["replay"] == "cpu" and r["busy"] is None
  and r["device_bytes"] > 0 and r["device_bytes_taken"] is None and r["host_waits"] == 0
  and r["sample_s"] > 0 and r["priority_update_s"] > 0 and r["host_wait_s"] == 0
  and r["sample_s"] + r["priority_update_s"] + r["host_wait_s"] < r["seconds"]
  and abs(r["env_steps_per_s"] * r["seconds"] - 500) < 1
  and abs(r["updates_per_s"] * r["seconds"] - 125) < 1'
expect 0 "$bench" epoch "${small[@]}" "${short[@]}"
for row in 'replay on the .* CPU' 'sampling, s an epoch' 'priority updates, s an epoch' \
  'host waits, s an epoch .* 0\.0000' 'host waits, times an epoch .* 0' 'an epoch, s' 'updates/s' \
  'env steps/s' 'GPU idle, % .* -' 'memory planned .* [kM]B' 'memory taken .* -'; do
  grep -qE "^$row" out || fail "the table has no row '$row'"
done
finish 'dqn-bench'
