#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Runs cppcheck with its MISRA add-on on the runtime; on the C of the template baremetal (with ../templates/firmware as
# src/) with each board's settings; on ../templates/standalone; and on the C of the template zephyr (as os/) against
# stubs of Zephyr's headers, in the configurations of testdata/zephyr/builds.txt. Fails on any plain finding, on a
# violation of a rule that misra.md does not explain, and if a file breaks a rule more often than misra.counts allows
# (rules explained for "everywhere" are not counted). Runtime and templates each have their own misra.md and
# misra.counts. Versions of the add-on find different violations: with another version than the one that wrote
# misra.counts, MISRA is not checked, and a line reports it.
#
#   sh lint.sh            checks
#   sh lint.sh brief      checks all but MISRA's rules, which take most of the time
#   sh lint.sh update     rewrites misra.counts, after misra.md explains a new deviation
set -eu
cd "$(dirname "$0")"
export LC_ALL=C
tab=$(printf '\t')
if ! command -v cppcheck >/dev/null; then
  echo 'lint: error: cppcheck is not installed (Debian: apt-get install cppcheck)' >&2
  exit 3
fi
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

mode=${1:-}
version=$(cppcheck --version | sed 's/^Cppcheck \([0-9]*\.[0-9]*\).*/\1/')
counted_by=$(sed -n '1s/.* by cppcheck \([0-9.]*\);.*/\1/p' misra.counts)
misra=--addon=misra
unchecked=
[ "$version" = "$counted_by" ] || [ "$mode" = update ] ||
  unchecked="misra.counts is for cppcheck $counted_by, installed is $version"
[ "$mode" != brief ] || unchecked='sh lint.sh without brief checks it'
[ -z "$unchecked" ] || misra=
# From 2.11 on cppcheck analyses fewer branches by default, and reports that for each file.
depth=--check-level=exhaustive
cppcheck $depth --version >/dev/null 2>&1 || depth=
# Newer versions know __has_include, but not in C11, and no name for the assembler behind an array. The stubs are where
# old headers were.
newer=
[ "$version" = "$counted_by" ] || newer='-D__has_include(x)=0 -D__asm__(x)='

# One line per finding: id, file, line, text. -D: macros of the compiler that the headers test.
findings() {
  cppcheck --quiet $depth --std=c11 --enable=warning,performance,portability $misra --inline-suppr \
    --suppress=missingIncludeSystem $newer -D__GNUC__ -DINT32_MAX=2147483647 \
    --template='{id}\t{file}\t{line}\t{message}' "$@" 2>&1
}

# ---- Settings of a board ---------------------------------------------------------------------------------------------
# Board files are read as text: only names of defines are keys in capitals, and sources end in ".c".

# Prints the board's file and those that it inherits from, the CPU's first.
chain() {
  parent=$(sed -n 's/.*"inherits": *"\([^"]*\)".*/\1/p' "../boards/$1.json")
  [ -z "$parent" ] || chain "$parent"
  echo "../boards/$1.json"
}

# Prints the C files of a board's port.
sources() {
  grep -oh '"port/[a-z0-9_/]*\.c"' $(chain "$1") | tr -d '"'
}

# Prints the part of crt_config.h that a port reads: not emulated, with a watchdog and RAM at 0, to check more code.
config() {
  sed -n 's/.*"core_hz": *\([0-9]*\),*$/#define BOARDSMITH_CORE_HZ \1/p' $(chain "$1") | tail -n 1
  grep -oh '"[A-Z][A-Z0-9_]*": *"[^"]*"' $(chain "$1") | sed 's/"\([^"]*\)": *"\([^"]*\)"/#define \1 \2/' |
    awk '{line[$2] = $0} END {for (k in line) print line[k]}' | sort
  printf '#define %s\n' 'BOARDSMITH_STACK_BYTES 4096' 'BOARDSMITH_ARENA_BYTES 4096' 'BOARDSMITH_WATCHDOG_MS 8000' \
    'BOARDSMITH_EMULATED 0' 'BOARDSMITH_BAUD 115200' 'BOARDSMITH_UPLOAD_BYTES 4096' \
    'BOARDSMITH_TIMER_HZ BOARDSMITH_CORE_HZ' 'TVM_CRT_LOG_LEVEL 2' BOARDSMITH_SIGNATURES \
    'TVM_CRT_MAX_PACKET_SIZE_BYTES 1024' 'TVM_CRT_GLOBAL_FUNC_REGISTRY_SIZE_BYTES 512' \
    "BOARDSMITH_REGIONS(X) X(0x08000000U, 4096U, REGION_CODE) X(0x20000000U, 4096U, REGION_RAM) \
X(0U, 4096U, REGION_RAM)"
}

# Prints the macros of a compiler for the board's CPU.
cpu() {
  case $(chain "$1" | head -n 1) in
    */cpu/cortex-m0*) echo '-DUINTPTR_MAX=0xFFFFFFFFU -D__arm__ -D__ARM_ARCH_6M__' ;;
    */cpu/cortex-m33* | */cpu/cortex-m55*) echo '-DUINTPTR_MAX=0xFFFFFFFFU -D__arm__ -D__ARM_ARCH_8M_MAIN__' ;;
    */cpu/cortex-m*) echo '-DUINTPTR_MAX=0xFFFFFFFFU -D__arm__ -D__ARM_ARCH_7M__' ;;
    */cpu/rv32*) echo '-DUINTPTR_MAX=0xFFFFFFFFU -D__riscv -D__riscv_xlen=32' ;;
    */cpu/rv64*) echo '-DUINTPTR_MAX=0xFFFFFFFFFFFFFFFFU -D__riscv -D__riscv_xlen=64' ;;
    *) echo '-DUINTPTR_MAX=0xFFFFFFFFFFFFFFFFU -DPATH_MAX=4096 -D__linux__' ;;
  esac
}

# board_findings BOARD FILE...: checks files of the template with the board's settings, in one run, for rules about
# several files.
board_findings() {
  cp -R ../templates/baremetal "$tmp/board.$1"
  cp -R ../templates/firmware/. "$tmp/board.$1/src"
  config "$1" >"$tmp/board.$1/crt_config/crt_config.h"
  cpu=$(cpu "$1")
  (cd "$tmp/board.$1" && shift && findings $cpu -I../include -Isrc -Iport -Icrt_config "$@") |
    grep "^[^$tab]*$tab\(src\|port\)/" || true # the runtime's headers are checked with the runtime
}

# Checks the template with each board that adds a file or a kind of CPU; several boards run in parallel.
template_findings() {
  : >"$tmp/seen"
  started=0
  at_once=$(getconf _NPROCESSORS_ONLN || echo 1)
  for file in ../boards/*.json; do
    board=$(basename "$file" .json)
    grep -q '"templates": .*"baremetal"' $(chain "$board") || continue
    { sources "$board"; cpu "$board"; } | sort >"$tmp/has"
    comm -23 "$tmp/has" "$tmp/seen" >"$tmp/new"
    [ -s "$tmp/new" ] || continue
    board_findings "$board" src $(sources "$board") >"$tmp/found.board.$board" &
    started=$((started + 1))
    [ $((started % at_once)) != 0 ] || wait
    sort -u -o "$tmp/seen" "$tmp/seen" "$tmp/has"
  done
  wait
  cat "$tmp"/found.board.*
  (cd ../templates/baremetal && find port -name '*.c' | sort) | comm -23 - "$tmp/seen" >"$tmp/unseen"
  sed "s/.*/unchecked$tab&${tab}0${tab}no board has this file/" "$tmp/unseen"
}

# Prints the macros of a compiler for a configuration of Zephyr's.
zephyr_cpu() {
  case $1 in
    *CONFIG_RISCV*) echo '-DUINTPTR_MAX=0xFFFFFFFFU' ;;
    *CONFIG_ARCH_POSIX*) echo '-DUINTPTR_MAX=0xFFFFFFFFFFFFFFFFU -DPATH_MAX=4096 -D__linux__' ;;
    *) echo '-DUINTPTR_MAX=0xFFFFFFFFU -D__arm__ -D__ARM_ARCH_7M__' ;;
  esac
}

# Checks the C of the template zephyr.
zephyr_findings() {
  cp -R ../templates/zephyr/boardsmith "$tmp/zephyr"
  cp -R ../templates/firmware "$tmp/zephyr/src"
  stubs=../templates/testdata/zephyr
  mkdir -p "$tmp/zephyr/stubs/sys" "$tmp/zephyr/stubs/drivers" "$tmp/zephyr/stubs/usb"
  cp $stubs/*.h "$tmp/zephyr/stubs"
  while read -r header; do
    echo '#include <stubs.h>' >"$tmp/zephyr/stubs/$header"
  done <$stubs/headers.txt
  grep -v '^#' $stubs/builds.txt | while IFS=: read -r name files flags; do
    [ "$name" != all ] || { common=$flags && continue; }
    (cd "$tmp/zephyr/os" && findings $(zephyr_cpu "$flags") $common $flags -I../config -I. -I../src -I../../include \
      -I../stubs $files) | grep "^[^$tab]*$tab[a-z_]*\.[ch]$tab" || true
  done | sed "s/$tab/${tab}os\//" >"$tmp/found.zephyr"
}

# Checks the C of standalone firmware, with the settings of one board.
standalone_findings() {
  cp -R ../templates/firmware "$tmp/alone"
  cp -R ../templates/standalone "$tmp/alone"
  config mps2_an385 >"$tmp/alone/crt_config.h"
  core=$(cpu mps2_an385)
  (cd "$tmp/alone" && findings $core -I../include -I. standalone) |
    grep "^[^$tab]*${tab}standalone/" >"$tmp/found.standalone" || true
}

# ---- Judgement of the findings ---------------------------------------------------------------------------------------

# judge FOLDER UPDATE: compares the findings on standard input with FOLDER/misra.md and misra.counts.
judge() {
  sort -u | grep -v '^[[:space:]]*$' >"$tmp/sorted" || true
  grep -v '^misra-' "$tmp/sorted" >"$tmp/plain" || true
  if [ -s "$tmp/plain" ]; then
    echo "lint: findings of cppcheck in $1:" >&2
    awk -F '\t' '{print $2 ":" $3 ": " $1 ": " $4}' "$tmp/plain" >&2
    return 1
  fi
  if [ -z "$misra" ]; then
    echo "lint: $1: no findings; MISRA not checked: $unchecked"
    return 0
  fi

  grep -o '^| [0-9][0-9.]* | everywhere |' "$1/misra.md" | tr -d '| ' | sed 's/everywhere//' >"$tmp/everywhere" || true
  grep '^misra-' "$tmp/sorted" | sed 's/^misra-c2012-//' >"$tmp/misra" || true
  awk -F '\t' 'NR == FNR {everywhere[$1]; next} !($1 in everywhere)' "$tmp/everywhere" "$tmp/misra" >"$tmp/counted"
  cut -f 1 "$tmp/misra" | sort -uV >"$tmp/rules"
  awk -F '\t' '{n[$1 "\t" $2]++} END {for (k in n) print k "\t" n[k]}' "$tmp/counted" | sort -V >"$tmp/counts"
  if [ "$2" = update ]; then
    {
      echo "# Deviations per rule and file, by cppcheck $version; see misra.md. \`sh lint.sh update\` writes this file."
      cat "$tmp/counts"
    } >"$1/misra.counts"
    echo "lint: $(wc -l <"$tmp/counts") entries written to $1/misra.counts"
  fi

  status=0
  while read -r rule; do
    grep -q "^| $rule |" "$1/misra.md" || echo "$rule"
  done <"$tmp/rules" >"$tmp/unexplained"
  if [ -s "$tmp/unexplained" ]; then
    echo "lint: broken rules that $1/misra.md does not explain:" $(cat "$tmp/unexplained") >&2
    status=1
  fi
  grep -o '^| [0-9][0-9.]* |' "$1/misra.md" | tr -d '| ' | while read -r rule; do
    grep -qx "$rule" "$tmp/rules" || echo "$rule"
  done >"$tmp/stale"
  if [ -s "$tmp/stale" ]; then
    echo "lint: rules that $1/misra.md explains but no file breaks:" $(cat "$tmp/stale") >&2
    status=1
  fi
  # New violations: more of a rule in a file than misra.counts has.
  awk -F '\t' '{k = $1 "\t" $2} NR == FNR {was[k] = $3; next} $3 > was[k] + 0 {print k "\t" $3 - was[k]}' \
    "$1/misra.counts" "$tmp/counts" >"$tmp/new"
  if [ -s "$tmp/new" ]; then
    while IFS="$tab" read -r rule file more; do
      echo "lint: MISRA C:2012 rule $rule: $more more than before in $file; all of them:" >&2
      grep "^misra-c2012-$rule	$file	" "$tmp/sorted" | cut -f 2,3 | tr '\t' ':' | sort -V | sed 's/^/  /' >&2
    done <"$tmp/new"
    echo "lint: fix them, or explain the rule in $1/misra.md and run \`sh lint.sh update\`" >&2
    status=1
  fi
  [ $status = 0 ] && echo "lint: $1: no new violations ($(wc -l <"$tmp/misra") explained ones)"
  return $status
}

# ---- The check -------------------------------------------------------------------------------------------------------

# Works on a copy, because the add-on writes its dump files beside the sources; each board has its own copy.
failed=0
cp -R include src embedded candidate test "$tmp"
# A candidate is another program: its shim defines functions that the runtime has.
# So are models without a host.
(cd "$tmp" && findings -Iinclude -Isrc -Itest/config src &&
  findings -Iinclude -Icandidate/include -Itest/config candidate && findings -Iinclude embedded) \
  >"$tmp/runtime" &
if [ -d ../templates/baremetal ]; then
  zephyr_findings &
  standalone_findings &
  template_findings >"$tmp/template"
fi
wait
[ ! -e "$tmp/found.zephyr" ] || cat "$tmp/found.zephyr" "$tmp/found.standalone" >>"$tmp/template"
judge . "$mode" <"$tmp/runtime" || failed=1
if [ -d ../templates/baremetal ]; then
  judge ../templates "$mode" <"$tmp/template" || failed=1
else
  echo 'lint: no ../templates/baremetal: the template is not checked'
fi
exit $failed
