#!/usr/bin/env bash
# scripts/sweep.py as a person runs it: exit codes, messages, a second call, one that is stopped.
# Exit code 77 (skipped) where Python's packages are missing.
#     tests/sweep_cli_test.sh FOLDER_OF_PROGRAMS        PYTHON chooses the interpreter
set -euo pipefail
bin=$(cd "$1" && pwd)
sweep=$(cd "$(dirname "$0")/../scripts" && pwd)/sweep.py
python=${PYTHON:-python3}
if ! "$python" -c 'import optuna, yaml, matplotlib' 2>/dev/null; then
  echo "skipped: $python has not all of optuna, pyyaml, matplotlib"
  exit 77
fi
# shellcheck source=tests/cli_helpers.sh
. "$(dirname "$0")/cli_helpers.sh"

# spec NAME SED_SCRIPT: a variation of the specification.
spec() {
  sed "$2" good.yaml >"$1.yaml"
}

cat >base.yaml <<'YAML'
env: {name: cartpole, lanes: 4}
device: cpu
threads: 1
net: {hidden: [8]}
replay: {capacity: 2000}
learner: {batch: 32}
train: {env_steps: 2000, epoch_steps: 1000, learning_starts: 500}
eval: {episodes: 2}
YAML
cat >good.yaml <<YAML
config: base.yaml
output: "study ü ?"
trials: 2
program: $bin/dqn-train
overrides: {train.env_steps: 1e3}
space:
  learner.lr: {low: 1e-5, high: 1e-2, log: true}
YAML

# ---- a sweep; a number as dqn-train writes it; a second call has nothing left to do ----
expect 0 "$python" "$sweep" good.yaml
[ "$(grep -c '^trial .* done ' out)" -eq 2 ] || fail 'not two trials'
"$python" - <<'PYTHON' || fail 'learning rates outside their range'
import csv
rows = list(csv.DictReader(open("study ü ?/results.csv")))
assert len(rows) == 2 and all(1e-5 <= float(r["learner.lr"]) <= 1e-2 for r in rows), rows
PYTHON
! grep -n ' $' out || fail 'blanks at the end of lines'
expect 0 "$python" "$sweep" good.yaml
! grep -q '^trial .* done ' out || fail 'the trials ran again'

# ---- every trial fails ----
spec bad 's/output:.*/output: bad/; s/train.env_steps/learner.lrr/'
expect 1 "$python" "$sweep" bad.yaml
says err 'not one of 2 trials gave a value'
says err 'learner.lrr is unknown'
says err '(trial 0, 1;'
expect 1 "$python" "$sweep" bad.yaml --report

# ---- specifications that are refused, with file and key ----
refused() {
  spec refused "$1"
  expect 2 "$python" "$sweep" refused.yaml
  says err refused.yaml
  says err "$2"
}
refused 's/low: 1e-5/low: tiny/' "'learner.lr': low is 'tiny', which is no number"
refused 's/low: 1e-5/low: 1/' 'low must be below high'
refused 's/low: 1e-5/low: 0/' 'low must be above 0'
refused 's/log: true/lag: true/' "'lag' is unknown"
refused 's/{low.*/{choices: []}/' 'it must be a list'
refused 's/{low.*/{choices: [1, {a: 1}]}/' 'no value of a configuration key'
refused 's/^  learner.lr:/  1:/' 'space 1 is no configuration key'
refused 's/^config:.*/config: nowhere.yaml/' 'nowhere.yaml is no file'
refused 's/trials: 2/trials: 2.5/' 'trials is 2.5'
refused 's/trials: 2/trails: 2/' "'trails'"
refused 's/^program:.*/program: nowhere/' 'nowhere cannot be run'
refused 's/{train.*/[1]/' 'overrides must be a mapping'
expect 2 "$python" "$sweep" none.yaml
says err none.yaml
printf '\377\376' >binary.yaml
expect 2 "$python" "$sweep" binary.yaml
spec other 's/1e-2/1e-1/'
expect 2 "$python" "$sweep" other.yaml
says err 'space was'
: >a-file
spec file 's/output:.*/output: a-file/'
expect 5 "$python" "$sweep" file.yaml
says err a-file
mkdir rubbish
echo nonsense nonsense nonsense >rubbish/study.db
spec rubbish 's/output:.*/output: rubbish/'
expect 5 "$python" "$sweep" rubbish.yaml
says err rubbish/study.db

# ---- one at work keeps a second one out; a stopped one goes on ----
spec long 's/output:.*/output: long/; s/train.env_steps: 1e3/train.env_steps: 1e8/; s/trials: 2/trials: 1/'
"$python" "$sweep" long.yaml >long.txt 2>&1 </dev/null &
long=$!
for ((i = 0; i < 600; i++)); do
  [ -n "$(find long -name metrics.csv 2>/dev/null)" ] && break
  sleep 0.05
done
expect 5 "$python" "$sweep" long.yaml
says err "(process $long)"
kill -TERM "$long"
got=0
wait "$long" || got=$?
[ "$got" -eq 130 ] || fail "a stopped sweep: exit $got ($(tail -2 long.txt))"
[ -n "$(find long -name 'epoch-*.h5')" ] || fail 'the stopped trial saved nothing'

# ---- output that cannot be written: one line, or none where nobody reads; no trial goes on ----
# ended NAME CODE LINES: how the last sweep ended, with how many lines on standard error, and that a
# long trial of it ended with it, saved.
ended() {
  [ "$code" -eq "$2" ] || fail "$1: exit code $code instead of $2"
  [ "$(wc -l <err)" -eq "$3" ] || fail "$1: not $3 lines on standard error"
  ! pgrep -f -- "output=$PWD/$1/" >/dev/null || fail "$1: a trial goes on"
}
# Two trials at once: the first ends, whose line cannot be printed; the other trains on.
cat >program <<SH
#!/bin/sh
case "\$*" in *trial-0000*) ;; *) set -- "\$@" --set train.env_steps=1e8 ;; esac
exec $bin/dqn-train "\$@"
SH
chmod +x program
spec full 's/output:.*/output: full/; s/^program:.*/program: program/; s/^overrides:.*/parallel: 2/'
sed 's/output: full/output: pipe/' full.yaml >pipe.yaml
code=0
"$python" "$sweep" full.yaml >/dev/full 2>err </dev/null || code=$?
ended full 5 1
says err 'the standard output could not be written: No space left on device'
code=0
mkfifo shut
"$python" "$sweep" pipe.yaml >shut 2>err </dev/null &
pid=$!
: <shut
wait "$pid" || code=$?
ended pipe 141 0
for folder in full pipe; do
  [ -n "$(find $folder -name 'epoch-*.h5')" ] || fail "$folder: nothing saved"
done
code=0
"$python" "$sweep" --help >/dev/full 2>err || code=$?
ended help 5 1
code=0
"$python" "$sweep" good.yaml --report >/dev/full 2>err || code=$?
ended report 5 1
code=0
"$python" "$sweep" good.yaml --report >&- 2>err || code=$?
ended closed 5 1
mv "study ü ?/results.csv" kept.csv && mkdir "study ü ?/results.csv"
expect 5 "$python" "$sweep" good.yaml --report
says err 'results.csv: Is a directory'
one=$(find "study ü ?/results" -name '*.json' | sort | head -1)
echo '{"trial": 0, ' >"$one"
expect 2 "$python" "$sweep" good.yaml --report
says err "${one##*/} is damaged (Expecting"
[ "$(wc -l <err)" -eq 1 ] || fail 'a damaged result ends with more than a line'
finish sweep_cli
