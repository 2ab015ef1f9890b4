#!/usr/bin/env bash
# Trains an agent on each of the nine markets that reward one kind of order and prints the table of
# docs/trading.md ("Proofs"):
#     scripts/reproduce_cells.sh [cell...]
# About ten seconds a market on one core. Fails when an agent does not use the market's kind
# of order for most of its orders at turns, or earns less than the second-best hand-made policy.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=${DQN_BIN:-build/release}
[ -x "$bin/tests/micro_cells" ] || {
  # shellcheck source=scripts/setup.sh
  source scripts/setup.sh
  dqn_install "${dqn_packages[@]}"
  dqn_build build/release -DDQN_TESTS=ON
}
cells=("$@")
[ ${#cells[@]} -gt 0 ] || cells=(market_patient market_normal market_aggressive limit_patient
  limit_normal limit_aggressive ioc_patient ioc_normal ioc_aggressive)
echo "| market | its share of the agent's orders at turns | agent, % a bar | best kind by hand | second best by hand | passed |"
echo "|---|---|---|---|---|---|"
failed=0
for cell in "${cells[@]}"; do
  set --
  # with a slippage of one s half a bar of delay is worth exactly what a normal order saves
  [ "$cell" != market_normal ] || set -- fill.slip_vol=1
  line=$("$bin/tests/micro_cells" configs/trading-cells.yaml "synthetic.cell=$cell" threads=1 "$@")
  echo "$line"
  case $line in *NO*) failed=1 ;; esac
done
exit $failed
