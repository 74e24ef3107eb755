#!/usr/bin/env bash
# run.sh SECONDS: fuzzes the core, the ONNX reader and the IR reader for SECONDS each, beginning with
# the inputs in fuzz/corpus; fails when one of them finds something. PYTHON is the interpreter that has
# the dependency group `fuzz`, CORE_FUZZ the program built of core.cpp; what is found stays under build/fuzz.
set -euo pipefail
seconds=$1
work=build/fuzz
mkdir -p "$work/found"
status=0

# fuzz CORPUS TITLE SECONDS COMMAND...
fuzz() {
  local corpus=$1 title=$2 time=$3
  shift 3
  mkdir -p "$work/corpus/$corpus"
  "$PYTHON" -m zipfile -e "fuzz/corpus/$corpus.zip" "$work/corpus/$corpus"
  local log="$work/$title.log" result="nothing found"
  if ! "$@" -max_total_time="$time" -timeout=30 -rss_limit_mb=2500 -print_final_stats=1 \
    -artifact_prefix="$work/found/$title-" "$work/corpus/$corpus" >"$log" 2>&1; then
    result="FOUND SOMETHING: see $log and $work/found"
    status=1
  fi
  echo "$title: $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") executions, $result"
}

export ASAN_OPTIONS=quarantine_size_mb=32 UBSAN_OPTIONS=print_stacktrace=1
for set in baseline avx2 avx512; do
  NDGATHER_INSTRUCTION_SET=$set fuzz core "core-$set" $(((seconds + 2) / 3)) "$CORE_FUZZ" -max_len=96 -len_control=0
done
for reader in onnx ir; do "$PYTHON" -m fuzz.make_seeds $reader "$work/corpus/$reader"; done
fuzz onnx onnx "$seconds" "$PYTHON" -m fuzz onnx -max_len=6000 -len_control=0
fuzz ir ir "$seconds" "$PYTHON" -m fuzz ir -max_len=6000 -len_control=0
exit "$status"
