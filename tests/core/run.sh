#!/usr/bin/env bash
# run.sh address|thread COMMAND...: runs COMMAND, in which Python loads an instrumented core, with a
# sanitizer runtime. Fails if COMMAND fails or any process that it started reported a finding, even a
# child that is never waited for; prints the reports.
set -euo pipefail
sanitizer=$1
shift

runtime() { "${CXX:-c++}" -print-file-name="$1"; }

reports=$(mktemp -d)
trap 'rm -rf "$reports"' EXIT
log="log_path=$reports/report"
# Crashes raise the usual signal, which tests expect. CPython itself keeps memory until the end.
export ASAN_OPTIONS="$log:handle_segv=0:allocator_may_return_null=1:detect_leaks=${LEAKS:-0}"
export UBSAN_OPTIONS="$log:print_stacktrace=1"
export TSAN_OPTIONS="$log:die_after_fork=0:second_deadlock_stack=1"
status=0
case $sanitizer in
  address) LD_PRELOAD="$(runtime libasan.so) $(runtime libstdc++.so)" "$@" || status=$? ;;
  # Its shadow memory does not support address space randomization with many bits.
  thread) LD_PRELOAD="$(runtime libtsan.so)" setarch -R "$@" || status=$? ;;
  *) echo "run.sh: no sanitizer $sanitizer (allowed: address, thread)" >&2; exit 2 ;;
esac

found='ERROR: |runtime error|WARNING: ThreadSanitizer'
if grep -rqE "$found" "$reports"; then
  grep -rhE -A40 "$found" "$reports" | head -300
  status=$((status ? status : 1))
fi
exit "$status"
