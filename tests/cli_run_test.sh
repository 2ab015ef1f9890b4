#!/usr/bin/env bash
# The programs as a person runs them: exit codes, messages, folders, signals, kills and resumes.
#     tests/cli_run_test.sh FOLDER_OF_THE_PROGRAMS FOLDER_OF_THE_TESTS [REPEATS [SEED]]
# REPEATS: how often a run is interrupted by each signal.
set -uo pipefail
bin=$(cd "$1" && pwd)
same=$(cd "$2" && pwd)/h5_same
repeats=${3:-2}
RANDOM=${4:-1}
train=$bin/dqn-train
# shellcheck source=tests/cli_helpers.sh
. "$(dirname "$0")/cli_helpers.sh"

same_checkpoint() {
  "$same" "$1" "$2" 2>err || fail "$1 and $2 differ"
}

# A run of about a second, and one that ends soon.
cat >long.yaml <<YAML
env: {name: cartpole, lanes: 4}
device: cpu
threads: 1
net: {hidden: [64, 64]}
replay: {capacity: 20000}
learner: {batch: 64}
train: {env_steps: 60000, epoch_steps: 6000, replay_ratio: 0.25}
eval: {episodes: 5}
YAML
sed 's/60000/4000/; s/6000/1000/' long.yaml >short.yaml
last=epoch-000010.h5

# ---- printing ----
expect 0 "$train" --help
says out 'usage: dqn-train CONFIG'
says out 'learner.lr'
expect 0 "$train" --version
says out 'HDF5'
expect 0 "$train" --completion
says out '--resume'
bash -n out || fail 'the completion script is no bash'
expect 0 "$train" short.yaml --print-config --set learner.lr=3e-4
says out 'lr: 0.0003'
cp out printed.yaml
expect 0 "$train" printed.yaml --print-config
cmp -s out printed.yaml || fail '--print-config of its own output differs'
expect 0 "$bin/dqn-eval" --help
expect 0 "$bin/dqn-data" --help

# ---- what is refused ----
expect 2 "$train"
says err 'no configuration was given'
expect 2 "$train" none.yaml
says err 'none.yaml'
expect 2 "$train" short.yaml --set learner.lrr=1
says err 'learner.lr'
expect 2 "$train" short.yaml --set learner.lr=-1
expect 2 "$train" short.yaml --reusme x
says err '--resume'
expect 2 "$train" short.yaml other.yaml
expect 2 "$train" --resume ''
says err '--resume has an empty value; it takes FILE|FOLDER'
expect 2 "$train" short.yaml --init-from=
expect 2 "$train" short.yaml --name $'a\nb'
says err 'control character'
expect 2 "$train" short.yaml --print-config --name $'\x1b[2J'
expect 2 "$train" short.yaml --name $'\xff'
cp short.yaml $'odd\a.yaml'
expect 2 "$train" $'odd\a.yaml'
says err 'name = "odd?"'
expect 2 "$train" short.yaml --name a/b
expect 3 "$train" --set env.name=trading --set data.file=none.csv --set device=cpu printed.yaml
says err 'none.csv'
printf 'timestamp,open,high,low,close\n2020-01-01,1,nonsense,1,1\n' >bad.csv
expect 3 "$train" --set env.name=trading --set data.file=bad.csv --set device=cpu printed.yaml
says err 'bad.csv'
# A run that cannot begin leaves no folder, not those above its own either, and none is named.
expect 5 "$train" short.yaml --init-from nosuch.h5
says err 'dqn-train: nosuch.h5: cannot be opened: No such file or directory'
[ "$(wc -l <err)" -eq 1 ] || fail 'more than the reason is said'
expect 7 "$train" short.yaml --init-from short.yaml
expect 7 "$train" short.yaml --init-from . --set output=deep/er
expect 3 "$train" --set env.name=trading --set data.file=none.csv --set output=deep/er printed.yaml
expect 4 "$train" short.yaml --set device=cuda --set device_index=63 --set output=deep/er
[ ! -e checkpoints ] && [ ! -e deep ] || fail 'a run that cannot begin leaves a folder'
if ! nvidia-smi -L >/dev/null 2>&1; then
  expect 4 "$train" short.yaml --device cuda --name none
fi
: >a-file
expect 5 "$train" short.yaml --set output=a-file
expect 5 "$train" short.yaml --set output=/proc/none
if [ "$(id -u)" -ne 0 ]; then
  mkdir -m 555 read-only
  expect 5 "$train" short.yaml --set output=read-only
  says err 'read-only'
fi
expect 6 "$train" short.yaml --set learner.lr=10 --set learner.weight_decay=1 --name diverges
says err 'not finite'
says err 'lastly in update'
expect 5 "$train" --resume nowhere
mkdir empty
expect 7 "$train" --resume empty
mkdir unsaved
cp short.yaml unsaved/config.yaml
expect 7 "$train" --resume unsaved
says err 'start the run again: dqn-train unsaved/config.yaml'
expect 7 "$train" --verify empty
says err 'no checkpoint'
expect 5 "$train" --verify nowhere
# The markets are those of the configuration's table, all of them.
expect 0 "$train" --help
markets=$(awk '$1 == "synthetic.market" { gsub(/\|/, ", ", $3); print $3 }' out)
[[ $markets == realistic,*micro ]] || fail "dqn-train --help has the markets '$markets'"
expect 2 "$bin/dqn-data" synth foo out.csv
says err "the markets are $markets"
expect 0 "$bin/dqn-data" --help
says out "$markets"
expect 2 "$bin/dqn-eval"

# ---- runs and folders ----
expect 0 "$train" short.yaml
# The legend tells which columns of metrics.csv the lines show: they are these.
says out 'Q is q_mean, return is return_mean, score is eval_return'
awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
  { printf "%d %.4g %.4g %.4g\n", $1, $at["q_mean"], $at["return_mean"], $at["eval_return"] }' \
  checkpoints/short-1/metrics.csv >columns
awk '$1 == "epoch" { for (i = 1; i <= NF; i++) at[$i] = i; next }
  at["Q"] && $1 ~ /^[0-9]+$/ { print $1, $(at["Q"] - 1), $(at["return"] - 1), $(at["score"] - 1) }' \
  out | cmp -s - columns || fail 'the lines of the epochs are not what the legend says'
[ "$(wc -l <columns)" -eq 4 ] || fail 'there are not four epochs'
expect 0 "$train" short.yaml
for n in 1 2; do
  [ -d "checkpoints/short-$n" ] || fail "there is no folder of run $n"
done
[ checkpoints/latest -ef checkpoints/short-2 ] || fail 'latest is not the newest run'
same_checkpoint checkpoints/short-1/epoch-000004.h5 checkpoints/short-2/epoch-000004.h5
[ "$(wc -l <checkpoints/short-1/metrics.csv)" -eq 5 ] || fail 'metrics.csv has not five lines'
expect 0 "$train" checkpoints/short-1/config.yaml --name again
same_checkpoint checkpoints/short-1/epoch-000004.h5 checkpoints/again-1/epoch-000004.h5
expect 0 "$train" short.yaml --init-from checkpoints/short-1/best.h5 --name warm --quiet
[ "$(cat out err | wc -c)" -eq 0 ] || fail '--quiet prints'
expect 0 "$bin/dqn-eval" checkpoints/short-1 --episodes 5
# One rule for a run's folder and for the folder of runs: best.h5.
[ checkpoints/short-2/best.h5 -ef checkpoints/short-2/epoch-000004.h5 ] &&
  fail 'the best of this run is its newest checkpoint, so that nothing is tested'
for folder in checkpoints/short-2 again-checkpoints; do
  [ -d "$folder" ] || { mkdir "$folder" && ln -s ../checkpoints/short-2 "$folder/latest"; }
  expect 0 "$bin/dqn-eval" "$folder" --episodes 5
  says out 'checkpoints/short-2/best.h5: cartpole'
done
expect 0 "$bin/dqn-eval" checkpoints/short-1/epoch-000004.h5 --episodes 5 --json
says out '{'
# loses COMMAND...: its standard output is a full disk.
loses() {
  local code=0
  step=$((step + 1))
  "$@" >/dev/full 2>err </dev/null || code=$?
  [ "$code" -eq 5 ] || fail "exit code $code instead of 5 on a full disk: ${*/#$bin\//}"
  says err 'the standard output could not be written'
}
loses "$bin/dqn-eval" checkpoints/short-1 --episodes 5 --json
loses "$bin/dqn-bench" collect --set env.name=cartpole --set device=cpu
loses "$bin/dqn-data" check --set synthetic.bars=3000 --parts 2 --quiet
loses "$bin/dqn-data" describe --set synthetic.bars=3000
expect 0 "$bin/dqn-data" describe --set synthetic.bars=3000
says out 'data: 3,000 bars of 15 min'
says out 'data: 6 gaps (6 regular closures such as weekends, 0 irregular), 1 segment,'
[ ! -s err ] || fail 'dqn-data describe answers on standard error'
loses "$bin/dqn-data" --help
# Lengths and counts as a person says them.
{
  echo time,open,high,low,close
  for month in 2019-{01..12} 2020-{01,02}; do echo "$month-01,1,2,1,2"; done
} >months.csv
expect 0 "$bin/dqn-data" describe months.csv
says out 'data: 14 bars of 31 days, 2019-01-01 00:00:00 to 2020-02-01'
expect 0 "$bin/dqn-data" check --set synthetic.bars=3000 --parts 1 --quiet
says out 'passed: 1 prefix, 1 suffix'
# Runs that cannot begin, at the same time as each other and as one that does: latest is its.
unfit() {
  for _ in 1 2 3; do
    "$train" --set env.name=trading --set data.file=none.csv --set device=cpu printed.yaml \
      --name unfit --set output=crowd --quiet 2>/dev/null &
  done
}
for round in 1 2 3; do
  unfit
  wait
  [ ! -e crowd ] || rmdir crowd || fail "round $round: runs that cannot begin leave $(ls -lA crowd)"
  unfit
  expect 0 "$train" short.yaml --set output=crowd --quiet
  wait
  [ "$(readlink crowd/latest)" = short-1 ] || fail "round $round: latest is $(readlink crowd/latest)"
  unfit
  wait
  [ "$(readlink crowd/latest)" = short-1 ] || fail "round $round: latest was short-1: $(ls -l crowd)"
  [ "$(ls -A crowd | tr '\n' ' ')" = 'latest short-1 ' ] || fail "round $round: left: $(ls -A crowd)"
  rm -r crowd
done
# A start that cannot write its configuration, for want of descriptors, is none.
for n in 4 5 6 7; do
  if ! (ulimit -n $n && exec "$train" short.yaml --set output=poor --quiet) >/dev/null 2>&1; then
    [ ! -e poor ] || fail "ulimit -n $n: a run that did not begin leaves $(find poor)"
  fi
  rm -rf poor
done
# A walk-forward whose runs' folders have no room for their files' names.
deep=$PWD/long
while [ ${#deep} -lt 740 ]; do deep=$deep/$(printf '%49s' '' | tr ' ' x); done
deep=$deep/$(printf "%$((954 - ${#deep} - 1))s" '' | tr ' ' y)
expect 2 "$train" --set env.name=trading --set device=cpu --set walk_forward.train=600 \
  --set walk_forward.validation=200 --set walk_forward.test=200 --set synthetic.bars=3000 \
  printed.yaml --name w --set "output=$deep"
says err "of this run's folder has"
[ ! -e long ] || fail "a walk-forward that cannot begin leaves $(find long | tail -2)"
# Of the folders above a run just those that were made go.
mkdir keep
for output in r1/../keep p9/./y p9/. p9/x/. p9/x/../z "new/$(printf '%256s' '' | tr ' ' x)"; do
  code=5
  [ "${output%%/*}" = new ] || code=3
  expect $code "$train" --set env.name=trading --set data.file=none.csv --set device=cpu \
    --set output="$output" printed.yaml
  [ -d keep ] && [ ! -e r1 ] && [ ! -e p9 ] && [ ! -e new ] || fail "output=$output: $(ls)"
done
# A signal while the folder is made waits until it can be removed again.
for delay in 0.01 0.015 0.02 0.025 0.03 0.035; do
  "$train" short.yaml --quiet --name early --set output=early 2>err &
  sleep "$delay"
  kill -TERM $! 2>/dev/null || true
  wait $! || true
  [ ! -d early/early-1 ] || [ -s early/early-1/config.yaml ] ||
    fail "a signal after $delay s left a folder without a run: $(ls -A early/early-1)"
  rm -rf early
done
# What was written, where the loading lines are: not on standard output. --quiet says nothing.
expect 0 "$bin/dqn-data" synth ou written.csv --set synthetic.bars=2000
says err "written: written.csv: 2,000 bars of 15 min, 2015-01-01 00:00:00 to 2015-01-21 19:45:00 UTC, "
expect 0 "$bin/dqn-data" convert written.csv written.h5
says err "written: written.h5: 2,000 bars of 15 min, 2015-01-01 00:00:00 to 2015-01-21 19:45:00 UTC, $(
  awk -v bytes="$(stat -c %s written.h5)" 'BEGIN { printf "%.1f kB", bytes / 1000 }')"
[ ! -s out ] || fail 'dqn-data convert writes to standard output'
# A link is not followed, so that what it leads to, which may be the input, is not lost.
ln -s written.csv there.csv
ln -s written.csv there.h5
ln -s absent.h5 absent-link.h5
cp written.csv kept.csv
for name in there.csv there.h5 absent-link.h5; do
  expect 5 "$bin/dqn-data" synth ou "$name" --set synthetic.bars=2000
  says err "$name: is a symbolic link, which a file would replace; name the file that it leads to"
  [ -L "$name" ] || fail "a file took a link's place"
done
cmp -s written.csv kept.csv && [ ! -e absent.h5 ] || fail 'a link was written through'
{ echo before; "$bin/dqn-data" synth ou - --set synthetic.bars=2000; echo after; } >around.csv 2>/dev/null
[ "$(sed -n '1p;$p' around.csv | tr '\n' ' ')" = 'before after ' ] || fail 'standard output was replaced'
# Names of the standard output are like -, and a closed one is refused before the work.
ln -s /dev/stdout output.csv
ln -s output.csv outputs.csv
for name in - /dev/stdout /dev/fd/1 /proc/self/fd/1 output.csv ./outputs.csv; do
  { echo before; "$bin/dqn-data" synth ou $name --set synthetic.bars=2000; echo after; } >again.csv 2>/dev/null
  cmp -s again.csv around.csv || fail "$name is not the standard output"
  step=$((step + 1))
  timeout 2 "$bin/dqn-data" synth realistic $name --set synthetic.bars=30000000 >&- 2>err
  [ $? -eq 5 ] || fail "$name: a closed standard output is not refused before the work"
  says err "$name: the standard output is closed, so nothing can be written to it"
  "$bin/dqn-data" synth ou $name --set synthetic.bars=2000 >/dev/full 2>err
  [ $? -eq 5 ] || fail "$name: a full disk does not end with 5"
  says err "$name: writing failed: No space left on device"
done
expect 0 "$bin/dqn-data" synth ou /dev/null --set synthetic.bars=2000
(ln -s ../kept.csv .tmp-$BASHPID-own.csv && exec "$bin/dqn-data" synth ou own.csv) 2>err &&
  fail 'a temporary was written through a link'
rm -f .tmp-*-own.csv
cmp -s written.csv kept.csv || fail 'a link in the place of a temporary was written through'
# What a file would replace is refused and stays; a CSV goes into a pipe.
mkfifo pipe.h5 pipe.csv
mkdir folder.h5 folder.csv
for what in 'pipe.h5: is a pipe' 'folder.h5: is a folder' 'folder.csv: is a folder'; do
  expect 5 "$bin/dqn-data" synth ou "${what%%:*}" --set synthetic.bars=2000
  says err "$what, which a file would replace; name another file, or remove it"
done
expect 5 "$bin/dqn-data" convert none.csv pipe.h5 # before the data are read
[ -p pipe.h5 ] && [ -d folder.h5 ] && [ -d folder.csv ] ||
  fail 'what was refused is gone'
cat pipe.csv >piped.csv &
expect 0 "$bin/dqn-data" synth ou pipe.csv --set synthetic.bars=2000
wait $!
cmp -s piped.csv written.csv || fail 'a CSV through a pipe is another'
[ -z "$(find . -name '.tmp*')" ] || fail 'left-overs of refused files'
cut -d, -f1-5 written.csv | sed '5,6d' >holes.csv
expect 3 "$bin/dqn-data" convert holes.csv holes.h5 --set data.gaps=ffill
says err 'holes.h5: 2 filled-in bars would lose the mark, as there is no volume'
[ ! -e holes.h5 ] || fail 'a file that lost its marks was written'
# An output that is one of the inputs, by whatever name, is refused before the work, and stays.
cp written.csv table.h5 # the contents tell that it is text
cp table.h5 table.kept
ln table.h5 hard.h5
ln -s table.h5 soft.h5
for name in table.h5 ./own/../table.h5 "$PWD/table.h5" hard.h5 soft.h5; do
  mkdir -p own
  expect 2 "$bin/dqn-data" convert table.h5 "$name"
  says err "dqn-data: $name: is the same file as $PWD/table.h5, which is read; writing would replace it"
done
expect 2 "$bin/dqn-data" convert none.csv table.h5 table.h5 # before any of them is read
says err "table.h5: is the same file as $PWD/table.h5"
expect 2 "$bin/dqn-data" convert 'tab*.h5' table.h5
says err "table.h5: is the same file as $PWD/table.h5"
echo 'synthetic: {bars: 2000}' >market.yaml
expect 2 "$bin/dqn-data" synth ou market.yaml --config market.yaml
says err "market.yaml: is the same file as $PWD/market.yaml, which is read"
cmp -s table.h5 table.kept && [ "$(cat market.yaml)" = 'synthetic: {bars: 2000}' ] ||
  fail 'an input was replaced'
rm -r own table.h5 hard.h5 soft.h5
# The output's place is looked at before the work: thirty million bars take longer than this.
touch nofolder
for what in 'absent/o.csv: cannot be written: there is no folder absent' \
  'absent/o.h5: cannot be written: there is no folder absent' \
  'nofolder/o.csv: cannot be written: nofolder is no folder' 'folder.csv: is a folder'; do
  expect 5 timeout 2 "$bin/dqn-data" synth realistic "${what%%:*}" --set synthetic.bars=30000000
  says err "$what"
done
# A file that is replaced keeps its permission bits; a new one gets the umask's.
cp written.csv secret.csv
cp written.h5 secret.h5
chmod 600 secret.csv secret.h5
for name in secret fresh; do
  for end in csv h5; do
    (umask 026 && exec "$bin/dqn-data" synth ou $name.$end --quiet --set synthetic.bars=2000) ||
      fail "$name.$end was not written"
  done
done
[ "$(stat -c %a secret.csv secret.h5 fresh.csv fresh.h5 | tr '\n' ' ')" = '600 600 640 640 ' ] ||
  fail "permission bits: $(stat -c '%n %a' secret.* fresh.*)"
expect 0 "$bin/dqn-data" convert holes.csv holes.h5 --set data.gaps=keep
expect 0 "$bin/dqn-data" convert written.csv written.h5 --quiet
[ "$(cat out err | wc -c)" -eq 0 ] || fail 'dqn-data convert --quiet prints'
expect 3 "$bin/dqn-data" describe none.csv
says err 'none.csv: cannot be opened: No such file or directory; check its name and who may read it'
mkdir own
echo mine >own/latest
expect 0 "$train" short.yaml --set output=own
says err 'own/latest does not point at this run: it is no link'
[ "$(cat own/latest)" = mine ] || fail 'a file named latest was replaced'
expect 2 "$train" --resume checkpoints/short-1 --init-from checkpoints/short-2/best.h5
says err '--init-from'

# ---- integrity ----
expect 0 "$train" --verify checkpoints/short-1
expect 0 "$train" --verify checkpoints
expect 0 "$train" --verify checkpoints/short-1/best.h5
expect 7 "$train" short.yaml --init-from checkpoints/short-1/best.h5 --set net.hidden=8 --name other
says err 'dqn-train: checkpoints/short-1/best.h5: its network is cartpole, 4-'
[ "$(wc -l <err)" -eq 1 ] && [ ! -e checkpoints/other-1 ] || fail 'a folder is named or made'
cp -r checkpoints/short-1 damaged
printf 'x' | dd of=damaged/epoch-000003.h5 bs=1 seek=20000 conv=notrunc 2>/dev/null
expect 0 "$train" --verify damaged
says out 'damaged'
cp checkpoints/short-1/epoch-000003.h5 damaged/
cp damaged/best.h5 good.h5
printf 'x' | dd of=damaged/best.h5 bs=1 seek=20000 conv=notrunc 2>/dev/null
expect 7 "$train" --verify damaged
says err 'damaged/best.h5'
cp good.h5 damaged/best.h5
mkdir best-alone
ln -s ../good.h5 best-alone/best.h5
expect 0 "$train" --verify best-alone
expect 0 "$bin/dqn-eval" best-alone --episodes 5
truncate -s 30000 damaged/epoch-000004.h5
expect 7 "$train" --verify damaged
says err 'epoch-000003.h5'
expect 7 "$train" --resume damaged
says err 'epoch-000003.h5: name it'
expect 7 "$bin/dqn-eval" damaged/epoch-000004.h5
expect 0 "$train" --resume damaged/epoch-000003.h5
same_checkpoint damaged/epoch-000004.h5 checkpoints/short-1/epoch-000004.h5

# ---- closed descriptors: no message lands in a file of the run ----
step=$((step + 1))
"$train" short.yaml --name closed <&- >&- 2>&-
[ $? -eq 5 ] || fail 'what was printed to a closed standard output does not count as lost'
grep -q '^[0-9]*$' checkpoints/closed-1/lock && [ "$(wc -l <checkpoints/closed-1/lock)" -eq 1 ] ||
  fail 'a message is in the lock'
cut -d, -f1-30 checkpoints/closed-1/metrics.csv |
  cmp -s - <(cut -d, -f1-30 checkpoints/short-1/metrics.csv) || fail 'a message is in metrics.csv'

# ---- files cut off by ulimit -f: an error text, and what was saved before stays ----
# limited CODE COMMAND...: files may have 100 kB, a checkpoint has more.
limited() {
  expect "$1" bash -c 'ulimit -f 100; exec "$@"' limited "${@:2}"
}
limited 5 "$train" short.yaml --name limited
says err 'limited-1/epoch-000001.h5: writing failed: File too large'
[ -z "$(find checkpoints/limited-1 -name '.tmp*' -o -name '*.h5')" ] || fail 'half a checkpoint is left'
cp -r checkpoints/short-1 cut
limited 5 "$train" --resume cut/epoch-000003.h5
says err 'cut/epoch-000004.h5: writing failed: File too large'
expect 0 "$train" --verify cut
limited 5 "$bin/dqn-data" synth ou big.csv
says err 'big.csv'
limited 5 "$bin/dqn-data" synth ou big.h5
says err 'big.h5'
[ -z "$(find . -maxdepth 1 -name '*big*')" ] || fail 'half a file is left'

# ---- resume with a configuration ----
expect 0 "$train" short.yaml --resume checkpoints/short-2/epoch-000003.h5 --set learner.lr=2e-3
says err 'learner.lr: the checkpoint has 0.001; 0.002 is now in force'
cp -r checkpoints/short-2 secret
chmod 600 secret/*
expect 0 "$train" --resume secret/epoch-000003.h5
[ -z "$(find secret -type f ! -perm 600 ! -name epoch-000004.h5 ! -name best.h5)" ] ||
  fail "permission bits: $(stat -c '%n %a' secret/*)"
find checkpoints/short-1 -type f -exec sha256sum {} + | sort >before
expect 2 "$train" --resume checkpoints/short-1 --set replay.capacity=1500
says err 'replay.capacity = 1500, but the checkpoint was made with 20000'
expect 2 "$train" short.yaml --resume checkpoints/short-1 --set collect.n_step=3
expect 2 "$train" short.yaml --resume checkpoints/short-1 --set net.hidden=8
find checkpoints/short-1 -type f -exec sha256sum {} + | sort >after
cmp -s before after || fail 'a refused resume changed files of the run'
expect 0 "$train" short.yaml --set checkpoint.replay=false --name lean
says err 'leave the replay out'
expect 0 "$train" --resume checkpoints/lean-1/epoch-000003.h5
says err 'holds no replay'

# ---- signals, kills, and a second process ----
expect 0 "$train" long.yaml --name whole --quiet
begun=$(date +%s%N)
expect 0 "$train" long.yaml --name timed --quiet
whole_ms=$((($(date +%s%N) - begun) / 1000000))

# wait_for_folder FOLDER: until training has begun there.
wait_for_folder() {
  local i
  for ((i = 0; i < 500; i++)); do
    [ -e "$1/metrics.csv" ] && return
    sleep 0.02
  done
  fail "no run began in $1"
}

# interrupted NAME SIGNAL CODE MS: a run that gets the signal after that many ms of training; then
# resumed with more of them until it ends.
interrupted() {
  local name=$1 signal=$2 code=$3 ms=$4 got=0 rounds=0
  # A shell without job control lets its background jobs ignore SIGINT.
  local run=(env --default-signal=INT "$train")
  "${run[@]}" long.yaml --name "$name" >out 2>err </dev/null &
  local pid=$!
  wait_for_folder "checkpoints/$name-1"
  while :; do
    sleep "$(printf '%d.%03d' $((ms / 1000)) $((ms % 1000)))"
    kill -s "$signal" "$pid" 2>/dev/null
    kill -s "$signal" "$pid" 2>/dev/null # the second one comes while it saves
    got=0
    wait "$pid" 2>/dev/null || got=$?
    [ "$got" -eq 0 ] && break
    [ "$got" -eq "$code" ] || fail "$name: exit code $got instead of $code"
    [ "$signal" = KILL ] || says err 'everything is saved'
    "$train" --verify "checkpoints/$name-1" >verified 2>&1 ||
      [ "$signal" = KILL ] || fail "$name: $(cat verified)"
    rounds=$((rounds + 1))
    ms=$((ms + whole_ms / 4))
    if ! ls "checkpoints/$name-1"/epoch-*.h5 >/dev/null 2>&1; then
      rm -rf "checkpoints/$name-1" # killed before the first checkpoint
      "${run[@]}" long.yaml --name "$name" >out 2>err </dev/null &
    else
      "${run[@]}" --resume "checkpoints/$name-1" >out 2>err </dev/null &
    fi
    pid=$!
    [ "$rounds" -lt 30 ] || { fail "$name does not end"; kill -KILL "$pid"; break; }
  done
  same_checkpoint "checkpoints/whole-1/$last" "checkpoints/$name-1/$last"
  cut -d, -f1-30 "checkpoints/$name-1/metrics.csv" |
    cmp -s - <(cut -d, -f1-30 checkpoints/whole-1/metrics.csv) || fail "$name: metrics.csv differs"
  [ -z "$(find "checkpoints/$name-1" -name '.tmp*' -o -name '*.new')" ] || fail "$name: left-overs"
  echo "$name: $rounds rounds"
  total_rounds=$((total_rounds + rounds))
}

total_rounds=0
for ((n = 1; n <= repeats; n++)); do
  interrupted "int$n" INT 130 $((RANDOM % (whole_ms / 2 + 1)))
  interrupted "term$n" TERM 143 $((RANDOM % (whole_ms / 2 + 1)))
  interrupted "kill$n" KILL 137 $((RANDOM % (whole_ms / 2 + 1)))
done
interrupted hup HUP 129 $((whole_ms / 5))
interrupted int INT 130 $((whole_ms / 5))
[ "$total_rounds" -gt 1 ] || fail 'no run was interrupted'

"$train" long.yaml --name busy --set train.env_steps=6000000 >/dev/null 2>&1 </dev/null &
busy=$!
wait_for_folder checkpoints/busy-1
for ((i = 0; i < 500; i++)); do
  [ -e checkpoints/busy-1/epoch-000001.h5 ] && break
  sleep 0.02
done
expect 5 "$train" --resume checkpoints/busy-1
says err "checkpoints/busy-1: another run trains in this folder (process $busy)"
kill -TERM "$busy"
wait "$busy"
[ $? -eq 143 ] || fail 'the first process did not go on'

# stopped_soon PID CODE: SIGTERM ends it within a second (more on a busy machine), with that code.
stopped_soon() {
  local begun got=0 ms
  begun=$(date +%s%N)
  kill -TERM "$1"
  wait "$1" || got=$?
  ms=$((($(date +%s%N) - begun) / 1000000))
  [ "$got" -eq "$2" ] || fail "exit code $got instead of $2 after SIGTERM"
  [ "$ms" -lt 1500 ] || fail "$ms ms from SIGTERM to the end"
}

# ---- a stop inside a long evaluation, the last one of the run; and inside the report ----
cat >evaluates.yaml <<'YAML'
env: {name: mountain_car, lanes: 4}
device: cpu
threads: 1
net: {hidden: [64, 64]}
replay: {capacity: 2000}
learner: {batch: 32}
train: {env_steps: 1000, epoch_steps: 1000, learning_starts: 500}
eval: {episodes: 20000}
YAML
expect 0 "$train" evaluates.yaml --name evaluated --quiet
"$train" evaluates.yaml --name evaluates >out 2>err </dev/null &
pid=$!
wait_for_folder checkpoints/evaluates-1
sleep 0.5
stopped_soon "$pid" 143
says err 'everything is saved'
[ -e checkpoints/evaluates-1/epoch-000000-partial.h5 ] || fail 'nothing saved inside the evaluation'
expect 0 "$train" --resume checkpoints/evaluates-1 --quiet
same_checkpoint checkpoints/evaluated-1/epoch-000001.h5 checkpoints/evaluates-1/epoch-000001.h5
cat >reports.yaml <<'YAML'
env: {lanes: 4, episode_bars: 256}
synthetic: {bars: 6000}
device: cpu
threads: 1
net: {hidden: [8]}
replay: {capacity: 2000}
learner: {batch: 32}
train: {env_steps: 1000, epoch_steps: 1000, learning_starts: 500}
eval: {episodes: 2}
report: {random_runs: 100000}
YAML
"$train" reports.yaml >out 2>err </dev/null &
pid=$!
for ((i = 0; i < 500; i++)); do
  [ -e checkpoints/reports-1/epoch-000001.h5 ] && break
  sleep 0.02
done
sleep 0.5
stopped_soon "$pid" 143
says err 'the training is complete and saved'
says out '1000'
expect 0 "$train" --verify checkpoints/reports-1

# ---- a stop while the data is read: no run has begun, and none is left ----
"$bin/dqn-data" synth realistic long.csv --set synthetic.bars=400000 --quiet
before=$(ls checkpoints)
latest=$(readlink checkpoints/latest)
"$train" reports.yaml --set data.file=long.csv --name unbegun >out 2>err </dev/null &
pid=$!
for ((i = 0; i < 500; i++)); do
  [ -e checkpoints/unbegun-1/lock ] && break
  sleep 0.01
done
sleep 0.1
stopped_soon "$pid" 143
says err 'before the training began'
[ "$before" = "$(ls checkpoints)" ] || fail 'a run that did not begin left its folder'
[ "$latest" = "$(readlink checkpoints/latest)" ] || fail 'latest leads elsewhere now'

# ---- walk-forward ----
cat >walk.yaml <<'YAML'
env: {lanes: 4, episode_bars: 128}
synthetic: {bars: 3600}
net: {hidden: [8]}
replay: {capacity: 2000}
learner: {batch: 32}
device: cpu
threads: 1
train: {env_steps: 2000, epoch_steps: 1000, learning_starts: 500}
eval: {episodes: 2}
walk_forward: {train: 2000, validation: 500, test: 500, embargo: 16, seeds: 2}
YAML
expect 0 "$train" walk.yaml --quiet
expect 0 "$train" walk.yaml --name single --set synthetic.bars=3100 --set walk_forward.seeds=1
says err 'walk-forward: 1 fold of 1 seed over 3100 bars'
says out 'Walk-forward: 1 fold, 1 seed each; 1 run, each tested once.'
expect 2 "$train" walk.yaml --name other --init-from checkpoints/single-1/fold-01-seed-1/best.h5
says err 'does not go with walk_forward'
[ ! -e checkpoints/other-1 ] || fail 'a walk-forward that was refused left its folder'
latest=$(readlink checkpoints/latest)
expect 3 "$train" walk.yaml --name other --set data.file=no-such-file.csv
expect 3 "$train" walk.yaml --name other --set walk_forward.train=100000
[ ! -e checkpoints/other-1 ] || fail 'a walk-forward that cannot begin left its folder'
[ "$latest" = "$(readlink checkpoints/latest)" ] || fail 'and latest leads to it'
# ---- a stop while the data is read, by all programs: here it comes from a pipe that keeps them waiting
mkfifo slow.csv
"$bin/dqn-data" synth realistic walked.csv --set synthetic.bars=3600 --quiet
expect 0 "$train" walk.yaml --name piped --set data.file=walked.csv --quiet
# stopped_reading COMMAND...: gets half of the file, and SIGTERM; the rest would come after 5 s.
stopped_reading() {
  step=$((step + 1))
  { head -c 200000 walked.csv; exec sleep 5; } >slow.csv &
  local feeder=$!
  "$@" >out 2>err </dev/null &
  local reader=$!
  sleep 0.5
  stopped_soon "$reader" 143
  kill "$feeder" 2>/dev/null
  wait "$feeder" 2>/dev/null
}
stopped_reading "$bin/dqn-data" describe slow.csv
stopped_reading "$bin/dqn-data" convert slow.csv slow.h5
[ ! -e slow.h5 ] || fail 'a stopped conversion left its file'
stopped_reading "$bin/dqn-eval" checkpoints/piped-1/fold-01-seed-1 --latest slow.csv
stopped_reading "$bin/dqn-bench" collect --set env.name=trading --set data.file="$PWD/slow.csv" \
  --set device=cpu
stopped_reading "$train" walk.yaml --set walk_forward.train=0 --set data.file=slow.csv --name alone
says err 'before the training began'
# A walk-forward reads the data once a run: a pipe is refused, at once and without a trace.
expect 3 timeout 20 "$train" walk.yaml --set data.file=slow.csv --name once
says err "$PWD/slow.csv: is a pipe, which gives its bytes once, but walk-forward reads the data again"
says err 'save it to a file first, and give that as data.file'
[ ! -e checkpoints/once-1 ] || fail 'a walk-forward that was refused left its folder'
rm slow.csv
# Stopped while it reads for its folds, and while its first run reads the data again, which takes long
# enough here: neither has gone on to what comes after that.
cp long.csv slow.csv
# stopped_walk FILE NEXT COMMAND...: SIGTERM soon after FILE is there, and before NEXT is.
stopped_walk() {
  local there=$1 next=$2 i
  shift 2
  step=$((step + 1))
  "$@" >out 2>err </dev/null &
  local pid=$!
  for ((i = 0; i < 1000; i++)); do
    [ -e "$there" ] && break
    sleep 0.01
  done
  sleep 0.1
  stopped_soon "$pid" 143
  [ -e "$there" ] || fail "it was not begun: no $there"
  [ ! -e "$next" ] || fail "it was not stopped while it read: $next"
  says err 'everything is saved: dqn-train --resume '
}
stopped_walk checkpoints/stopped-1/config.yaml checkpoints/stopped-1/walk-forward.json \
  "$train" walk.yaml --set data.file=slow.csv --name stopped
stopped_walk checkpoints/stopped-1/fold-01-seed-1/config.yaml \
  checkpoints/stopped-1/fold-01-seed-1/metrics.csv "$train" --resume checkpoints/stopped-1
cp walked.csv slow.csv
expect 0 "$train" --resume checkpoints/stopped-1 --quiet
cmp -s checkpoints/stopped-1/out-of-sample.csv checkpoints/piped-1/out-of-sample.csv ||
  fail 'a walk-forward stopped while it read ends otherwise'
# Killed after its first file, and inside the first run before a checkpoint: the same command goes on.
for part in '' fold-01-seed-1; do
  mkdir -p killed/"$part"
  cp checkpoints/walk-1/config.yaml checkpoints/walk-1/lock killed
  [ -z "$part" ] || cp checkpoints/walk-1/"$part"/{config.yaml,lock} killed/"$part"
  expect 0 "$train" --verify killed
  expect 0 "$train" --resume killed --quiet
  cmp -s killed/out-of-sample.csv checkpoints/walk-1/out-of-sample.csv ||
    fail "a walk-forward killed at its start (${part:-before any run}) ends otherwise"
  rm -rf killed
done
# The folder, and an output folder whose latest it is, mean the same: all folds.
# Data that change between two runs of a walk-forward: it is not of one market.
cp walked.csv swap.csv
"$bin/dqn-data" synth realistic other.csv --set synthetic.bars=3600 --set synthetic.seed=9 --quiet
code=0
"$train" walk.yaml --set output=swapped --set data.file=swap.csv --set walk_forward.seeds=10 >out 2>err &
for _ in $(seq 1000); do
  [ -e swapped/walk-1/fold-01-seed-1/best.h5 ] && break # the first run has read the data
  sleep 0.01
done
mv other.csv swap.csv
wait $! || code=$?
[ "$code" -eq 3 ] || fail "a walk-forward over data that changed ends with $code"
says err 'the data changed while walk-forward ran'
expect 3 "$train" --resume swapped/walk-1
says err 'the data changed while walk-forward ran'
# One whose first run cannot begin leaves no folder either.
expect 4 "$train" walk.yaml --set device=cuda --set device_index=63 --set output=swapped
[ "$(ls swapped | tr '\n' ' ')" = 'latest walk-1 ' ] && [ "$(readlink swapped/latest)" = walk-1 ] ||
  fail "a walk-forward that cannot begin leaves $(ls -l swapped)"
expect 4 "$train" walk.yaml --set device=cuda --set device_index=63 --set output=unbegun
[ ! -e unbegun ] || fail "a walk-forward that cannot begin leaves $(find unbegun)"
expect 0 "$bin/dqn-eval" checkpoints/walk-1
says out 'folds out of sample'
cp out walk.out
expect 0 "$bin/dqn-eval" checkpoints
sed 's|checkpoints/latest|checkpoints/walk-1|' out | cmp -s - walk.out ||
  fail 'an output folder gives another report than its newest walk-forward'
expect 2 "$bin/dqn-eval" checkpoints/walk-1 --latest "$PWD/walk.yaml"
says err 'checkpoints/walk-1/fold-01-seed-1'
expect 2 "$bin/dqn-eval" checkpoints/walk-1 --steps
says err '--steps goes with --report'
expect 0 "$train" --verify checkpoints/walk-1
[ "$(grep -c '^ok .*best.h5' out)" -eq 4 ] || fail '--verify does not check all runs'
printf 'x' | dd of=checkpoints/walk-1/fold-02-seed-1/best.h5 bs=1 seek=9000 conv=notrunc 2>/dev/null
expect 7 "$train" --verify checkpoints/walk-1
says err 'fold-02-seed-1/best.h5'
[ "$(grep -c '^ok .*best.h5' out)" -eq 3 ] || fail '--verify stops at the first damaged file'

# ---- a resume changes only a run's own folder, and only once it stands ----
expect 0 "$train" short.yaml --name home --quiet
mkdir -p elsewhere
echo mine >elsewhere/config.yaml
cp checkpoints/home-1/best.h5 elsewhere/net.h5
expect 2 "$train" --resume elsewhere/net.h5
says err "is no run's folder"
[ "$(cat elsewhere/config.yaml)" = mine ] || fail 'a foreign config.yaml was written over'
ln -s "$PWD/checkpoints/home-1/epoch-000003.h5" elsewhere/link.h5
before=$(find checkpoints/home-1 | sort)
expect 2 "$train" --resume elsewhere/link.h5 --set replay.capacity=7777
[ "$before" = "$(find checkpoints/home-1 | sort)" ] || fail 'a refused resume changed the folder'
expect 0 "$train" --resume elsewhere/link.h5 --quiet
[ -e checkpoints/home-1/epoch-000004.h5 ] || fail 'the run did not go on in its own folder'
expect 2 "$train" short.yaml --set output=
says err 'names no folder'
expect 2 "$train" short.yaml --set train.replay_ratio=1e-9
says err 'makes no update'

finish "cli_run, a whole run takes $whole_ms ms"
