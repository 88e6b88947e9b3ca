#!/bin/sh
# Prints, as a table, what a build from nothing of a project of the template zephyr takes, beside one of TVM 0.14's own
# Zephyr template: the same archive, board, Zephyr, compiler and number of jobs, in turn: sh tools/zephyr-peer.sh ROUNDS
# Default: 5 rounds, after one that is not counted: it fills Zephyr's own cache of the compiler's options.
# ZEPHYR_BASE is a Zephyr 3.2, for which TVM's template is; BOARDSMITH_TVM_PYTHON is a Python with TVM 0.14's tvm.micro.
# TVM's template needs pyserial, pyusb and psutil in west's Python, and a C++ library for the board, such as Debian's
# libstdc++-arm-none-eabi-newlib. Zephyr refuses a newlib without retargetable locks, which is Debian's: the define only
# makes its check pass. BOARD is a board that both have, MODEL an archive that is not compressed.
set -eu
cd "$(dirname "$0")/.."
rounds=${1:-5} board=${BOARD:-mps2_an521} jobs=$(nproc) locks=-D_RETARGETABLE_LOCKING=1
model=$(realpath "${MODEL:-examples/samples/digits_i8.aot_packed.tar}")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT INT TERM
go tool mage -compile "$scratch/mage"
unset BOARD MODEL

cat >"$scratch/generate.py" <<'EOF'
import sys, tvm.micro
from tvm.micro import project
template = tvm.micro.get_microtvm_template_projects("zephyr")
project.generate_project_from_mlf(template, sys.argv[1], sys.argv[2], {
    "project_type": "host_driven", "board": sys.argv[3], "zephyr_base": sys.argv[4], "west_cmd": "west",
    "config_main_stack_size": 4096})
EOF

# Builds in a project's folder, and adds a row to the measured ones: way, wall time, time in user mode, in the kernel.
build() {
  way=$1 folder=$2
  shift 2
  (cd "$folder" && /usr/bin/time -a -o "$scratch/rows" -f "$way %e %U %S" "$@") >"$scratch/log" 2>&1 ||
    { cat "$scratch/log" >&2; exit 1; }
}

for round in $(seq 0 "$rounds"); do
  # Each build is one from nothing: ccache, which Zephyr uses where it is installed, is off.
  "$BOARDSMITH_TVM_PYTHON" "$scratch/generate.py" "$scratch/theirs" "$model" "$board" "$ZEPHYR_BASE"
  build theirs "$scratch/theirs" west build "-o=-j$jobs" -- -DUSE_CCACHE=0 "-DEXTRA_CFLAGS=$locks" \
    "-DEXTRA_CXXFLAGS=$locks"
  for way in mage west; do
    export BOARDSMITH_HOME="$scratch/home" PROJECT="$scratch/ours"
    BOARD=zephyr/$board MODEL=$model TEMPLATE='' OPTIONS='' APP='' "$scratch/mage" generate >"$scratch/log"
    echo 'set(USE_CCACHE 0)' >"$scratch/ours/local/local.cmake"
    case $way in
      mage) build mage . "$scratch/mage" build ;;
      west) build west "$scratch/ours" west build -d build/west -b "$board" "-o=-j$jobs" ;;
    esac
    rm -rf "$scratch/ours" "$scratch/home"
  done
  rm -rf "$scratch/theirs"
  [ "$round" -gt 0 ] || rm "$scratch/rows"
done
printf "| from nothing, -j$jobs | seconds of all processors | mean | of TVM's | wall time |\n|---|---|--:|--:|--:|\n"
awk '{ n[$1]++; each[$1] = each[$1] sprintf(" %.2f", $3 + $4); sum[$1] += $3 + $4; wall[$1] += $2 }
function row(way, name) {
  mean = sum[way] / n[way]
  printf "| %s |%s | %.2f | %.3f | %.1f s |\n", name, each[way], mean, sum[way] / sum["theirs"], wall[way] / n[way]
}
END { row("theirs", "TVM: `west build`"); row("mage", "`mage build`"); row("west", "its project by `west build`") }
' "$scratch/rows"
