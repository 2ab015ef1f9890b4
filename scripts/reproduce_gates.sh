#!/usr/bin/env bash
# Trains every task of the learning gates with five seeds and prints the table of docs/gates.md:
#     scripts/reproduce_gates.sh [task...]
# Tasks: cartpole acrobot mountain-car ou-oracle ou-features martingale shuffled per-uniform.
# All of them take up to an hour on two cores. Runs go to checkpoints/gates (GATES_OUTPUT), two at a
# time (GATES_PARALLEL), one thread each, on the CPU (GATES_DEVICE=cuda: on the GPU); a run that is
# complete there is not run again.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=${DQN_BIN:-build/release}
[ -x "$bin/dqn-train" ] || {
  # shellcheck source=scripts/setup.sh
  source scripts/setup.sh
  dqn_install "${dqn_packages[@]}"
  dqn_build build/release -DDQN_TESTS=OFF
}
output=$PWD/${GATES_OUTPUT:-checkpoints/gates}
parallel=${GATES_PARALLEL:-2}
seeds=${GATES_SEEDS:-1 2 3 4 5}
device=${GATES_DEVICE:-cpu}
mkdir -p "$output"

# run_one TASK SEED CONFIG [--set ...]: trains unless that was done, evaluates best and last.
run_one() {
  local task=$1 seed=$2 config=$3
  shift 3
  local folder="$output/$task-seed$seed"
  [ -s "$folder.json" ] && return 0
  rm -rf "$folder"
  "$bin/dqn-train" "$config" --quiet --name run --set "output=$folder" --set "seed=$seed" \
    --set threads=1 --set "device=$device" --set checkpoint.keep_last=1 "$@" 2>"$folder.log" || {
    echo "$task seed $seed failed: $(tail -1 "$folder.log")" >&2
    return 1
  }
  local last
  last=$(find "$folder"/run-1 -name 'epoch-*.h5' | sort | tail -1)
  {
    "$bin/dqn-eval" "$folder/run-1/best.h5" --json
    "$bin/dqn-eval" "$last" --json
  } >"$folder.json.new" 2>>"$folder.log"
  mv "$folder.json.new" "$folder.json"
}

# start TASK CONFIG [--set ...]: all seeds, so many at a time.
start() {
  local task=$1 config=$2 seed
  shift 2
  for seed in $seeds; do
    while [ "$(jobs -rp | wc -l)" -ge "$parallel" ]; do sleep 0.2; done
    run_one "$task" "$seed" "$config" "$@" &
  done
}

# The two markets without anything to earn: usual sizing, costs and reward.
nothing=(--set env.sizing=equity --set env.ruin_fraction=0.5 --set fill.fixed_cost=-1
  --set reward.kind=log_return --set learner.lr_end=0 --set synthetic.sigma=0.0015)
run_task() {
  case $1 in
    cartpole | acrobot | mountain-car) start "$1" "configs/$1.yaml" ;;
    ou-oracle) start "$1" configs/trading-ou.yaml --set env.observation=oracle ;;
    ou-features) start "$1" configs/trading-ou.yaml --set train.env_steps=3000000 \
      --set train.epoch_steps=100000 ;;
    martingale) start "$1" configs/trading-ou.yaml --set synthetic.market=martingale "${nothing[@]}" ;;
    shuffled) start "$1" configs/trading-ou.yaml --set synthetic.market=ou_shuffled "${nothing[@]}" ;;
    per-uniform)
      for task in cartpole acrobot mountain-car; do
        start "uniform-$task" "configs/$task.yaml" --set replay.kind=uniform
      done
      start uniform-ou-oracle configs/trading-ou.yaml --set env.observation=oracle \
        --set replay.kind=uniform
      ;;
    *)
      echo "no task '$1'" >&2
      exit 2
      ;;
  esac
}

tasks=("$@")
[ ${#tasks[@]} -gt 0 ] || tasks=(cartpole acrobot mountain-car ou-oracle ou-features martingale
  shuffled per-uniform)
for task in "${tasks[@]}"; do run_task "$task"; done
wait
python3 scripts/gates_table.py "$output"
