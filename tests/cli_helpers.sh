# shellcheck shell=bash
# What the tests of the programs share; sourced by them, with `bin` set to the programs' folder.
# It makes an empty folder, which goes again at the end, and works in there.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0
step=0 # commands so far

# fail TEXT...: counts a failure and shows what the last command printed; the test goes on.
fail() {
  failures=$((failures + 1))
  echo "FAIL: $*" >&2
  [ ! -s out ] || tail -5 out | sed 's/^/  out: /' >&2
  [ ! -s err ] || tail -5 err | sed 's/^/  err: /' >&2
}

# expect CODE COMMAND...: runs it, output in the files out and err, and checks the exit code.
expect() {
  local want=$1 code=0
  shift
  step=$((step + 1))
  "$@" >out 2>err </dev/null || code=$?
  [ "$code" -eq "$want" ] || fail "exit code $code instead of $want: ${*/#$bin\//}"
}

# says FILE TEXT: what the last command wrote to out or err.
says() {
  grep -qF -- "$2" "$1" || fail "$1 does not say '$2'"
}

# finish TEXT...: the end of a test, which fails when anything in it did.
finish() {
  echo "$*: $step commands, $failures failures"
  [ "$failures" -eq 0 ]
  exit
}
