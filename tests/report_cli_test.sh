#!/usr/bin/env bash
# dqn-eval --report and --latest after a short training: files, exit codes, figures computed again
# from the tables, and that the action for the newest bar is the one that the evaluation took there.
# Usage: report_cli_test.sh FOLDER_OF_PROGRAMS
set -euo pipefail
bin=$(cd "$1" && pwd)
scripts=$(cd "$(dirname "$0")/../scripts" && pwd)
# shellcheck source=tests/cli_helpers.sh
. "$(dirname "$0")/cli_helpers.sh"

cat >trading.yaml <<'YAML'
env: {lanes: 4, episode_bars: 256}
synthetic: {bars: 6000}
net: {hidden: [16]}
replay: {capacity: 4000}
learner: {batch: 32}
train: {env_steps: 4000, epoch_steps: 2000, learning_starts: 500}
eval: {episodes: 2}
report: {random_runs: 20, bootstrap: 200}
YAML
expect 0 "$bin/dqn-train" trading.yaml --name run --set output=runs --set threads=1 --device cpu
grep -q "^Verdict: " out || fail "no verdict at the end of training"
run=runs/run-1

expect 0 "$bin/dqn-eval" $run --report deep/er/report --steps --trials 7
grep -q "^Verdict: " out || fail "no verdict on the terminal"
for file in report.json report.html equity.csv trades.csv fills.csv steps.csv; do
  [ -s deep/er/report/$file ] || fail "no $file"
done
[ "$(find deep/er/report -type f | wc -l)" -eq 6 ] || fail "files are left over"
expect 0 "$bin/dqn-eval" $run --split validation --report again
[ -e again/steps.csv ] && fail "steps.csv without --steps"
grep -q '"trials": 7' deep/er/report/report.json || fail "the trials are not in report.json"
expect 0 "$bin/dqn-eval" $run --set threads=3 --report threads --steps --trials 7
diff -r deep/er/report threads || fail "the report depends on the number of threads"
if command -v python3 >/dev/null; then
  expect 0 python3 "$scripts/check_report.py" deep/er/report
  expect 0 python3 "$scripts/check_report.py" again
fi

# Other data than the agent was trained on: a warning, and in report.json.
grep -q '"data_changed": false' deep/er/report/report.json || fail "the data are not compared"
expect 0 "$bin/dqn-eval" $run --set synthetic.seed=9 --report other
grep -q "^Warning: These are not the data" out || fail "no warning of other data"
grep -q '"data_changed": true' other/report.json || fail "report.json does not say so"

# A walk-forward: no report before its end, then one over all folds.
cat >walk.yaml <<'YAML'
env: {lanes: 4, episode_bars: 64}
synthetic: {bars: 2600}
walk_forward: {train: 900, validation: 300, test: 400, seeds: 3}
net: {hidden: [8]}
replay: {capacity: 500}
learner: {batch: 8, lr: 1e-2}
train: {env_steps: 800, epoch_steps: 400, learning_starts: 100}
eval: {episodes: 2}
report: {random_runs: 10, bootstrap: 100}
YAML
expect 0 "$bin/dqn-train" walk.yaml --name walk --set output=runs --set threads=1 --device cpu
grep -q "dqn-eval .*runs/walk-1 --report DIR" out || fail "the way to the report is not told: $(tail -2 out)"
expect 0 "$bin/dqn-eval" runs/walk-1 --report walked --steps
grep -q "3 folds out of sample" out || fail "no folds on the terminal"
grep -q "Fold by fold" walked/report.html || fail "no folds on the page"
head -1 walked/equity.csv | grep -q ",fold$" || fail "no folds in equity.csv"
if command -v python3 >/dev/null; then
  expect 0 python3 "$scripts/check_report.py" walked
  grep -q "fold 3: as tested then" out || fail "the folds are not checked"
fi
expect 0 "$bin/dqn-eval" runs/walk-1 --set threads=3 --report walked-threads --steps
diff -r walked walked-threads || fail "the report of a walk-forward depends on the number of threads"
expect 2 "$bin/dqn-eval" runs/walk-1 --split validation
grep -q "fold-01-seed-1" err || fail "no way out is told: $(cat err)"
expect 0 "$bin/dqn-eval" runs/walk-1/fold-01-seed-1
mv runs/walk-1/fold-03-seed-3/test.csv hidden.csv
expect 7 "$bin/dqn-eval" runs/walk-1
grep -q "dqn-train --resume runs/walk-1" err || fail "no way on is told: $(cat err)"

# The newest bar: the market up to the first decision of the test split, as a file.
expect 0 "$bin/dqn-data" synth realistic market.csv --config trading.yaml --quiet
IFS=, read -r decided _ action _ < <(sed -n 2p deep/er/report/steps.csv)
awk -v last="$decided" -F, '{ print } $1 == last { exit }' market.csv >until.csv
[ "$(tail -1 until.csv | cut -d, -f1)" = "$decided" ] || fail "$decided is not in the market"
expect 0 "$bin/dqn-eval" $run --latest until.csv --json
grep -q "\"time\": \"$decided\"" out || fail "another bar: $(cat out)"
grep -q "\"action\": $action," out || fail "not action $action: $(cat out)"
expect 0 "$bin/dqn-eval" $run --latest until.csv --exposure -0.5
grep -q "Held: exposure -0.5" out || fail "the exposure is not said"
grep -q "was trained on bars" err && fail "the bars' length is said to differ: $(cat err)"
grep -Eq "by (a (patient|normal)|an aggressive) (market|limit|ioc) order" out ||
  fail "the order is not said: $(cat out)"

# Bars of another length than in training.
expect 0 "$bin/dqn-data" synth realistic hours.csv --quiet \
  --set synthetic.bars=1000 --set synthetic.bar_seconds=3600
expect 0 "$bin/dqn-eval" $run --latest hours.csv --json
grep -q '"bar_seconds": 3600,' out || fail "no length of bars: $(cat out)"
grep -q "hours.csv has bars of 1 h, and this agent was trained on bars of 15 min" err ||
  fail "no warning of hourly bars: $(cat err)"

expect 2 "$bin/dqn-eval" $run --latest until.csv --exposure 3
expect 2 "$bin/dqn-eval" $run --report x --trials 0
expect 2 "$bin/dqn-eval" $run --split all
expect 2 "$bin/dqn-eval" $run --steps
expect 2 "$bin/dqn-eval" $run --trials 3
expect 2 "$bin/dqn-eval" $run --exposure 0.5
expect 2 "$bin/dqn-eval" $run --latest until.csv --split test
expect 2 "$bin/dqn-eval" $run --latest until.csv --report x
expect 2 "$bin/dqn-eval" $run --episodes 5
expect 2 "$bin/dqn-eval" ''
[ ! -e x ] || fail "a refused report made its folder"
head -n 300 market.csv >short.csv
expect 3 "$bin/dqn-eval" $run --latest short.csv
grep -q "data.gaps" err && fail "a remedy that is none, there is no hole: $(cat err)"
expect 3 "$bin/dqn-eval" $run --latest missing.csv
expect 3 "$bin/dqn-eval" $run --latest "$(printf '%1100s' | tr ' ' x).csv"
says err "has 1104 bytes; at most 1021 are read"
expect 3 "$bin/dqn-eval" $run --latest "$(printf '%1022s' | tr ' ' x)"
says err "has 1022 bytes"
head -n 800 market.csv >few.csv
expect 3 "$bin/dqn-train" trading.yaml --name few --set output=runs --set data.file=few.csv
grep -q "in 1 segment, where not 2 bars are left" err || fail "no reason: $(cat err)"
grep -q "data.gaps" err && fail "a remedy that is none, there is no hole: $(cat err)"
expect 5 "$bin/dqn-eval" $run --report /sys/none
grep -q "No such file" err && fail "the reason is another one: $(cat err)"
# The report's place is looked at before the work.
touch taken
mkdir -p here/equity.csv
ln -s nowhere dangling
ln -s round round
long=$(printf '%256s' '' | tr ' ' x)
for what in 'taken: cannot be written: taken is no folder' \
  'dangling: cannot be made: dangling is a symbolic link that leads nowhere' \
  'dangling/deep/er: cannot be made: dangling is a symbolic link that leads nowhere' \
  'round: cannot be made: round is a symbolic link that leads nowhere' \
  "new/$long: cannot be made: ${long:0:40}... has 256 bytes, and a name here has at most 255" \
  "new/$long/deep: cannot be made: ${long:0:40}... has 256 bytes, and a name here has at most 255" \
  "$long: cannot be written: the folder $long takes no files: File name too long" \
  'taken/deep/er: cannot be written: taken is no folder' \
  'here/equity.csv: is a folder'; do
  place=${what%%:*}
  expect 5 timeout 2 "$bin/dqn-eval" $run --report "${place%/equity.csv}" --set report.bootstrap=1000000 \
    --set report.random_runs=100000
  says err "$what"
  expect 5 "$bin/dqn-eval" runs/walk-1 --report "${place%/equity.csv}"
  says err "$what"
done
[ -L dangling ] && [ ! -e nowhere ] && [ ! -e new ] || fail "a refused report left something"
# So is that its files are none of those that are read.
mkdir reads
cp market.csv reads/equity.csv
cp trading.yaml data.yaml
echo 'data: {file: reads/equity.csv}' >>data.yaml
expect 0 "$bin/dqn-train" data.yaml --name data --set output=runs --set threads=1 --device cpu --quiet
expect 2 "$bin/dqn-eval" runs/data-1 --report reads
says err "reads/equity.csv: is the same file as $PWD/reads/equity.csv, which is read"
expect 2 "$bin/dqn-eval" $run --set data.file=reads/equity.csv --report reads
says err "reads/equity.csv: is the same file as $PWD/reads/equity.csv, which is read"
ln $run/best.h5 reads/report.html
rm reads/equity.csv
expect 2 "$bin/dqn-eval" $run --report reads
says err "reads/report.html: is the same file as $run/best.h5, which is read"
rm reads/report.html
for name in best.h5 test.csv; do # of a walk-forward those of its runs
  ln runs/walk-1/fold-02-seed-2/$name reads/report.json
  expect 2 "$bin/dqn-eval" runs/walk-1 --report reads
  says err "reads/report.json: is the same file as runs/walk-1/fold-02-seed-2/$name, which is read"
  rm reads/report.json
done
expect 0 "$bin/dqn-eval" $run --report reads
chmod 600 reads/*
expect 0 "$bin/dqn-eval" $run --report reads --steps
[ -z "$(find reads -type f ! -perm 600 ! -name steps.csv)" ] ||
  fail "permission bits: $(stat -c '%n %a' reads/*)"

# A folder that was made goes again with a report that cannot be written.
(ulimit -f 1; trap '' XFSZ; exec "$bin/dqn-eval" $run --report made/for/it) >out 2>err &&
  fail "a report was written over its limit"
says err "made/for/it/"
[ ! -e made ] || fail "left of a report that cannot be written: $(find made)"

# What is no plain file stays, and then nothing is written.
expect 0 "$bin/dqn-eval" $run --report linked
cp linked/report.json before.json
cp linked/report.html elsewhere.html
rm linked/report.html
ln -s ../elsewhere.html linked/report.html
expect 5 "$bin/dqn-eval" $run --report linked --trials 9
says err "linked/report.html: is a symbolic link, which a file would replace"
[ -L linked/report.html ] || fail "a report took the place of a link"
cmp -s linked/report.json before.json || fail "half of a report was written"
rm linked/report.html
cp elsewhere.html linked/report.html
rm linked/fills.csv
mkfifo linked/fills.csv
expect 5 "$bin/dqn-eval" $run --report linked --trials 9
says err "linked/fills.csv: is a pipe, which a file would replace"
[ -p linked/fills.csv ] || fail "a report took the place of a pipe"
cmp -s linked/report.json before.json || fail "half of a report was written"
[ -z "$(find linked -name '.tmp*')" ] || fail "left-overs of a refused report"
# A signal at any moment: the whole old report or the whole new one, and nothing beside it.
inodes() {
  for file in report.json report.html equity.csv trades.csv fills.csv steps.csv; do
    stat -c %i "$1/$file"
  done
}
report=("$bin/dqn-eval" "$run" --report kept --steps)
begun=$(date +%s%N)
expect 0 "${report[@]}"
whole_us=$((($(date +%s%N) - begun) / 1000))
for ((i = 1; i <= 12; i++)); do
  before=$(inodes kept)
  "${report[@]}" --trials $((i + 1)) >out 2>err &
  pid=$!
  sleep "$(printf '0.%06d' $((whole_us * i / 12 < 999999 ? whole_us * i / 12 : 999999)))"
  kill -TERM $pid 2>/dev/null || true
  got=0
  wait $pid || got=$?
  [ $got -eq 0 ] || [ $got -eq 143 ] || fail "exit $got after SIGTERM"
  [ "$(find kept -mindepth 1 | wc -l)" -eq 6 ] || fail "left over: $(ls -A kept)"
  changed=$(comm -3 <(sort <<<"$before") <(inodes kept | sort) | wc -l)
  [ "$changed" -eq 0 ] || [ "$(comm -12 <(sort <<<"$before") <(inodes kept | sort) | wc -l)" -eq 0 ] ||
    fail "half of the report is new"
  "$bin/dqn-data" synth realistic out.csv --config trading.yaml --quiet &
  pid=$!
  sleep "$(printf '0.%03d' $((i * 5)))"
  kill -TERM $pid 2>/dev/null || true
  wait $pid || true
  [ -z "$(find . -maxdepth 1 -name '.tmp*')" ] || fail "left over: $(ls -A)"
  [ ! -e out.csv ] || cmp -s out.csv market.csv || fail "half a market was written"
  rm -f out.csv
done
finish report_cli
