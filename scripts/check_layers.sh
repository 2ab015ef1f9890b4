#!/usr/bin/env bash
# Checks the direction of includes (docs/architecture.md): lower layers never include upper ones.
set -euo pipefail
cd "$(dirname "$0")/.."
failed=0

# forbid PATTERN_OF_FILES REGEX REASON
forbid() {
  local found
  # shellcheck disable=SC2086
  found=$(grep -nE "#include +[\"<]($2)" $1 2>/dev/null || true)
  if [ -n "$found" ]; then
    printf '%s\n%s\n' "layer rule broken: $3" "$found" >&2
    failed=1
  fi
}

upper='(\.\./)*(src/)?(trainer|trainer_parts|collector|learner|evaluator|replay|checkpoint|metrics|progress|readback|program)\.h'
forbid "src/shared/*.h" '(\.\./)*(src/)?(base|config|arena|backend|net)\.h|'"$upper" 'src/shared includes nothing above it'
forbid "envs/*.h" '(\.\./)*(src/)?(base|arena|backend|net)\.h|'"$upper" 'envs include src/shared alone'
forbid "src/base.h src/base.c" '(config|arena|backend|net)\.h|'"$upper" 'base includes nothing above it'
forbid "src/arena.h src/config*.c src/config.h src/net.h src/net.c src/backend.h" "$upper" 'arena, config, net and backend.h know no module'
forbid "src/cpu/*.c src/cpu/*.h kernels/*" '(\.\./)*(src/)?(trainer|config_schema|checkpoint|learner|collector|evaluator|metrics)\.h' 'backends implement backend.h and know no module'
forbid "src/collector.c src/collector.h" '(learner|trainer|checkpoint)\.h' 'collector and learner meet only in the replay'
forbid "src/learner.c src/learner.h" '(collector|trainer|checkpoint)\.h' 'collector and learner meet only in the replay'
forbid "src/checkpoint*.c src/checkpoint.h" '(collector|learner|trainer|evaluator|replay)\.h' 'checkpoint sees arena and config only'
backends=$(grep -lE 'DQN_HAVE_CUDA' src/*.c src/*.h src/*/*.c src/*/*.h 2>/dev/null | grep -v '^src/backend_registry.c$' || true)
if [ -n "$backends" ]; then
  printf 'only src/backend_registry.c may ask whether CUDA is built in:\n%s\n' "$backends" >&2
  failed=1
fi
[ $failed -eq 0 ] && echo "layers: ok"
exit $failed
