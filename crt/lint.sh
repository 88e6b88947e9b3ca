#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# cppcheck with its MISRA add-on over all of the runtime, and over the C of the template beside it (../templates) as each
# board has it. Fails on any plain finding, on a violation of a rule that misra.md gives no reason to break, and where a
# file breaks a rule more often than misra.counts says (rules that misra.md breaks "everywhere" are not counted). The
# runtime's two files lie here, the template's in ../templates. Each version of the add-on finds other violations: one that
# has not made misra.counts checks all but MISRA, and says so.
#
#   sh lint.sh            checks
#   sh lint.sh update     writes misra.counts anew, for a deviation that misra.md explains
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

version=$(cppcheck --version | sed 's/^Cppcheck \([0-9]*\.[0-9]*\).*/\1/')
counted_by=$(sed -n '1s/.* by cppcheck \([0-9.]*\);.*/\1/p' misra.counts)
misra=--addon=misra
[ "$version" = "$counted_by" ] || [ "${1:-}" = update ] || misra=
# From 2.11 on cppcheck looks at fewer branches than before, and says so of each file, unless it is told to look at all.
depth=--check-level=exhaustive
cppcheck $depth --version >/dev/null 2>&1 || depth=

# One line per finding: id, file, line, text. -D: what a compiler defines and the headers ask for.
findings() {
  cppcheck --quiet $depth --std=c11 --enable=warning,performance,portability $misra --inline-suppr \
    --suppress=missingIncludeSystem -D__GNUC__ -DINT32_MAX=2147483647 --template='{id}\t{file}\t{line}\t{message}' "$@" 2>&1
}

# ---- What a board is ---------------------------------------------------------------------------------------------------
# Board files are read here as text: names of defines are the only keys in capitals, sources end in ".c".

# The board's file and those that it inherits from, the CPU's first.
chain() {
  parent=$(sed -n 's/.*"inherits": *"\([^"]*\)".*/\1/p' "../boards/$1.json")
  [ -z "$parent" ] || chain "$parent"
  echo "../boards/$1.json"
}

# The C files of a board's port.
sources() {
  grep -oh '"port/[a-z0-9_/]*\.c"' $(chain "$1") | tr -d '"'
}

# crt_config.h as far as a port reads it. Not emulated, with a watchdog and RAM at 0: so more of the code is seen.
config() {
  sed -n 's/.*"core_hz": *\([0-9]*\),*$/#define BOARDSMITH_CORE_HZ \1/p' $(chain "$1") | tail -n 1
  grep -oh '"[A-Z][A-Z0-9_]*": *"[^"]*"' $(chain "$1") | sed 's/"\([^"]*\)": *"\([^"]*\)"/#define \1 \2/' |
    awk '{line[$2] = $0} END {for (k in line) print line[k]}' | sort
  printf '#define %s\n' 'BOARDSMITH_STACK_BYTES 4096' 'BOARDSMITH_ARENA_BYTES 4096' 'BOARDSMITH_WATCHDOG_MS 8000' \
    'BOARDSMITH_EMULATED 0' 'BOARDSMITH_TIMER_HZ BOARDSMITH_CORE_HZ' 'TVM_CRT_LOG_LEVEL 2' \
    'TVM_CRT_MAX_PACKET_SIZE_BYTES 1024' 'TVM_CRT_GLOBAL_FUNC_REGISTRY_SIZE_BYTES 512' \
    'BOARDSMITH_REGIONS(X) X(0x08000000U, 4096U, REGION_CODE) X(0x20000000U, 4096U, REGION_RAM) X(0U, 4096U, REGION_RAM)'
}

# What a compiler for the board's CPU defines.
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

# Checks the template as the board has it: src/ and the board's port, in one go, for rules about all files together.
board_findings() {
  cp -R ../templates/baremetal "$tmp/board.$1"
  config "$1" >"$tmp/board.$1/crt_config/crt_config.h"
  cpu=$(cpu "$1")
  sources=$(sources "$1")
  (cd "$tmp/board.$1" && findings $cpu -I../include -Isrc -Iport -Icrt_config src $sources) |
    grep "^[^$tab]*$tab\(src\|port\)/" || true # the runtime's headers are the runtime's matter
}

# The template with each board that has a file which no board before it had, or another kind of CPU; some at a time.
template_findings() {
  : >"$tmp/seen"
  started=0
  at_once=$(getconf _NPROCESSORS_ONLN || echo 1)
  for file in ../boards/*.json; do
    board=$(basename "$file" .json)
    grep -q '"templates": .*"baremetal"' $(chain "$board") || continue
    { sources "$board"; cpu "$board"; } | sort >"$tmp/has"
    [ -n "$(comm -23 "$tmp/has" "$tmp/seen")" ] || continue
    board_findings "$board" >"$tmp/found.$board" &
    started=$((started + 1))
    [ $((started % at_once)) != 0 ] || wait
    sort -u -o "$tmp/seen" "$tmp/seen" "$tmp/has"
  done
  wait
  cat "$tmp"/found.*
  (cd ../templates/baremetal && find port -name '*.c' | sort) | comm -23 - "$tmp/seen" >"$tmp/unseen"
  sed "s/.*/unchecked$tab&${tab}0${tab}no board has this file/" "$tmp/unseen"
}

# ---- What may be found -------------------------------------------------------------------------------------------------

# judge FOLDER UPDATE: the findings on standard input against FOLDER/misra.md and misra.counts.
judge() {
  sort -u | grep -v '^[[:space:]]*$' >"$tmp/sorted" || true
  grep -v '^misra-' "$tmp/sorted" >"$tmp/plain" || true
  if [ -s "$tmp/plain" ]; then
    echo "lint: cppcheck found in $1:" >&2
    awk -F '\t' '{print $2 ":" $3 ": " $1 ": " $4}' "$tmp/plain" >&2
    return 1
  fi
  if [ -z "$misra" ]; then
    echo "lint: $1: nothing found; MISRA was not checked: misra.counts is of cppcheck $counted_by, this is $version"
    return 0
  fi

  grep -o '^| [0-9][0-9.]* | everywhere |' "$1/misra.md" | tr -d '| ' | sed 's/everywhere//' >"$tmp/everywhere" || true
  grep '^misra-' "$tmp/sorted" | sed 's/^misra-c2012-//' >"$tmp/misra" || true
  awk -F '\t' 'NR == FNR {everywhere[$1]; next} !($1 in everywhere)' "$tmp/everywhere" "$tmp/misra" >"$tmp/counted"
  cut -f 1 "$tmp/misra" | sort -uV >"$tmp/rules"
  awk -F '\t' '{n[$1 "\t" $2]++} END {for (k in n) print k "\t" n[k]}' "$tmp/counted" | sort -V >"$tmp/counts"
  if [ "$2" = update ]; then
    { echo "# Deviations per rule and file, by cppcheck $version; \`sh lint.sh update\` writes this file, misra.md says why."; cat "$tmp/counts"; } >"$1/misra.counts"
    echo "lint: $(wc -l <"$tmp/counts") entries written to $1/misra.counts"
  fi

  status=0
  while read -r rule; do
    grep -q "^| $rule |" "$1/misra.md" || echo "$rule"
  done <"$tmp/rules" >"$tmp/unexplained"
  if [ -s "$tmp/unexplained" ]; then
    echo "lint: rules that $1/misra.md gives no reason to break:" $(cat "$tmp/unexplained") >&2
    status=1
  fi
  grep -o '^| [0-9][0-9.]* |' "$1/misra.md" | tr -d '| ' | while read -r rule; do
    grep -qx "$rule" "$tmp/rules" || echo "$rule"
  done >"$tmp/stale"
  if [ -s "$tmp/stale" ]; then
    echo "lint: rules that $1/misra.md explains and nothing breaks:" $(cat "$tmp/stale") >&2
    status=1
  fi
  # What is new: more of a rule in a file than there were.
  awk -F '\t' 'NR == FNR {was[$1 "\t" $2] = $3; next} $3 > was[$1 "\t" $2] + 0 {print $1 "\t" $2 "\t" $3 - was[$1 "\t" $2]}' \
    "$1/misra.counts" "$tmp/counts" >"$tmp/new"
  if [ -s "$tmp/new" ]; then
    while IFS="$tab" read -r rule file more; do
      echo "lint: MISRA C:2012 rule $rule: $more more than before in $file; all of them:" >&2
      grep "^misra-c2012-$rule	$file	" "$tmp/sorted" | cut -f 2,3 | tr '\t' ':' | sort -V | sed 's/^/  /' >&2
    done <"$tmp/new"
    echo "lint: mend them, or explain the rule in $1/misra.md and run \`sh lint.sh update\`" >&2
    status=1
  fi
  [ $status = 0 ] && echo "lint: $1: no new violations ($(wc -l <"$tmp/misra") explained ones)"
  return $status
}

# ---- The check ---------------------------------------------------------------------------------------------------------

# On a copy, because the add-on writes what it knows of all files beside them; so each board has its own copy.
failed=0
cp -R include src test "$tmp"
(cd "$tmp" && findings -Iinclude -Isrc -Itest/config src) >"$tmp/runtime" &
[ ! -d ../templates/baremetal ] || template_findings >"$tmp/template"
wait
judge . "${1:-}" <"$tmp/runtime" || failed=1
if [ -d ../templates/baremetal ]; then
  judge ../templates "${1:-}" <"$tmp/template" || failed=1
else
  echo 'lint: ../templates/baremetal is not here, so the template is not checked'
fi
exit $failed
