#!/usr/bin/env bash
# portable.sh CMAKE FOLDER [BUILD...]: builds the core without its binding with two compilers, for another
# processor and for another system, without warnings, and runs random calls where possible. Also builds
# it with checks of all conversions and overflows, once with the usual limits and once with tiny limits.
set -uo pipefail
cmake=$1
folder=$2
shift 2
builds=("${@:-gcc clang aarch64 windows arithmetic arithmetic-tiny}")

# For each build: compiler, its Debian package, CMake options, and how to run its programs.
describe() {
  options=() runs=() suffix="" calls="2 200"  # threads, calls per thread
  case $1 in
    gcc) compiler=g++ package=g++ runs=(env) ;;
    clang) compiler=clang++ package=clang runs=(env) ;;
    aarch64)
      compiler=aarch64-linux-gnu-g++ package="g++-aarch64-linux-gnu qemu-user" runs=(qemu-aarch64)
      options=(-DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 -DCMAKE_EXE_LINKER_FLAGS=-static) ;;
    windows)
      compiler=x86_64-w64-mingw32-g++-posix package="g++-mingw-w64-x86-64-posix wine" runs=(wine) suffix=.exe
      export WINEPREFIX=$PWD/$folder/wine WINEDEBUG=-all
      options=(-DCMAKE_SYSTEM_NAME=Windows -DCMAKE_SYSTEM_PROCESSOR=AMD64 -DCMAKE_EXE_LINKER_FLAGS=-static) ;;
    arithmetic*)
      compiler=clang++ package=clang runs=(env UBSAN_OPTIONS=print_stacktrace=1) calls="2 4000"
      checks=undefined,implicit-conversion,unsigned-integer-overflow
      options=("-DCMAKE_CXX_FLAGS=-fsanitize=$checks -fno-sanitize-recover=all \
        -fsanitize-ignorelist=$PWD/tests/core/meant_wraps.txt")
      [ "$1" = arithmetic ] || options+=(-DNDGATHER_TINY=ON) ;;
    *) echo "portable.sh: no build $1 (allowed: gcc, clang, aarch64, windows, arithmetic, arithmetic-tiny)" >&2; exit 2 ;;
  esac
}

build() {
  local name=$1
  describe "$name"
  for command in "$compiler" ${runs[0]+"${runs[0]}"}; do
    command -v "$command" > /dev/null && continue
    echo "make check-portable needs $command (apt-get install $package)" >&2
    return 1
  done
  "$cmake" -S . -B "$folder/$name" -G Ninja --log-level=WARNING -DNDGATHER_CORE_ONLY=ON \
    -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER="$compiler" \
    -DCMAKE_CXX_FLAGS="-Wall -Wextra -Wconversion -Werror" "${options[@]}" > /dev/null || return 1
  "$cmake" --build "$folder/$name" -- --quiet -k 0 || return 1
  [ ${#runs[@]} = 0 ] || "${runs[@]}" "$folder/$name/core_calls$suffix" $calls
}

status=0
for name in ${builds[*]}; do
  echo "== $name"
  build "$name" || { echo "== $name fails"; status=1; }
done
exit $status
