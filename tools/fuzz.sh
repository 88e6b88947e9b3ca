#!/bin/sh
# Fuzzes the parsers in Go and C, and repeats the tests that kill processes and clients at random moments. The target
# with the fewest processor minutes in the ledger comes first. What was interesting is kept, so that each run continues
# the one before.
#
#   sh tools/fuzz.sh SECONDS PATTERN            each target whose name matches the extended expression, once
#   sh tools/fuzz.sh SECONDS PATTERN MINUTES    one after the other, again and again, until so many minutes have passed
#   sh tools/fuzz.sh sum                        prints the processor minutes by target, and their sum
#
# SECONDS is the time of each fuzz target; a test runs once. Variables: LEDGER, the file of the results (default:
# docs/fuzzing.tsv); FUZZ_KEPT, the folder of what is kept (default: ~/.cache/boardsmith-fuzz). A failed target is not
# tried again in the same run. Exits with 1 if one failed.
set -eu
cd "$(dirname "$0")/.."
ledger=${LEDGER:-docs/fuzzing.tsv}
kept=${FUZZ_KEPT:-${XDG_CACHE_HOME:-$HOME/.cache}/boardsmith-fuzz}

if [ "$*" = sum ]; then
  awk -F '\t' '
    NR > 1 { minutes[$3] += $5; sum += $5 }
    END {
      for (target in minutes) printf "%9.1f  %s\n", minutes[target], target | "sort -rn"
      close("sort -rn")
      printf "%9.1f  processor minutes\n", sum
    }' "$ledger"
  exit
fi
if [ $# -lt 2 ]; then
  sed -n '2,/^set /s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
seconds=$1
pattern=$2
minutes=${3:-}

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' INT TERM

# The targets: a file and a function of Go, or a program of C and its kind.
{
  grep -roE --include='*_test.go' '^func Fuzz[A-Za-z0-9]*\(f \*testing\.F\)' . | sed 's,^\./,,; s,:func , ,; s,(.*,,'
  cat <<'END'
serve/x Test: TestKilledAnywhere TestKilledClient TestPowerLoss
tune/x Test: TestInterruptedLoads TestKilledRunContinues
device/x Test: TestFlashSurvivesKill
project/x Test: TestKeptKilled
END
} | awk '{ sub("/[^/]*$", "", $1); sub("Test:", ""); for (i = 2; i <= NF; i++) print $1 "." $i }' >"$scratch/all"
if command -v clang >/dev/null; then
  make -s -C crt fuzzers | sed 's/^/crt./' >>"$scratch/all"
else
  echo 'fuzz: clang is not installed: the targets in C are left out' >&2
fi
grep -E "$pattern" "$scratch/all" | sort >"$scratch/targets"
: >"$scratch/finished"
[ -f "$ledger" ] || printf 'day\tcommit\ttarget\tseed\tprocessor minutes\tresult\n' >"$ledger"

# The target with the fewest minutes, except the finished ones.
least() {
  awk -F '\t' '
    FILENAME == ARGV[1] { minutes[$3] += $5; next }
    FILENAME == ARGV[2] { finished[$1]; next }
    !($1 in finished) && (target == "" || minutes[$1] < minutes[target]) { target = $1 }
    END { print target }' "$ledger" "$scratch/finished" "$scratch/targets"
}

# build TARGET: the program $scratch/program, so that its time does not include that of the compiler.
build() {
  case $1 in
    crt.*) make -s -C crt "build/test/fuzz_${1#crt.}" && cp "crt/build/test/fuzz_${1#crt.}" "$scratch/program" ;;
    *.Fuzz*) go test -c -vet=off -fuzz="^${1##*.}\$" -o "$scratch/program" "./${1%.*}" ;;
    *) go test -c -vet=off -o "$scratch/program" "./${1%.*}" ;;
  esac
}

# run TARGET SEED: fuzzes for $seconds, or runs the test.
run() {
  limit="timeout -k 10 $((seconds + 1800))"
  mkdir -p "$kept/$1"
  case $1 in
    crt.*)
      corpus=crt/build/test/corpus
      [ "$1" != crt.standalone ] || corpus=${corpus}_standalone
      $limit "$scratch/program" -seed="$2" -max_total_time="$seconds" -max_len=8192 -timeout=60 \
        -artifact_prefix="crt/build/test/${1#crt.}-" "$kept/$1" "$corpus"
      ;;
    *.Fuzz*)
      cd "${1%.*}"
      GODEBUG=fuzzseed=$2 $limit "$scratch/program" -test.run='^$' -test.fuzz="^${1##*.}\$" \
        -test.fuzztime="${seconds}s" -test.fuzzminimizetime=20x -test.parallel=1 -test.fuzzcachedir="$kept/$1"
      ;;
    *)
      cd "${1%.*}"
      SEED=$2 $limit "$scratch/program" -test.run="^${1##*.}\$" -test.count=1 -test.timeout=0
      ;;
  esac
}

# Go 1.26 reports the end of the fuzzing time as a failure sometimes (golang/go#75804).
only_over() {
  awk '
    /^--- FAIL: Fuzz[A-Za-z0-9]* \([0-9.]*s\)$/ { getline reason; getline last; over = reason last }
    /Failing input written to/ { found = 1 }
    END { exit found || over != "    context deadline exceededFAIL" }' "$1"
}

# Processor seconds of the ended children. `times` must not run in a subshell, which has no children.
used() { awk 'END { gsub(/[ms]/, " "); print $1 * 60 + $2 + $3 * 60 + $4 }' "$scratch/times"; }

failed=0
start=$(date +%s)
while [ -z "$minutes" ] || [ $(($(date +%s) - start)) -lt $((60 * minutes)) ]; do
  target=$(least)
  [ -n "$target" ] || break
  seed=$(od -An -N4 -tu4 /dev/urandom | awk '{ print $1 % 2147483646 + 1 }')
  result=ok
  if build "$target" >"$scratch/output" 2>&1; then
    times >"$scratch/times"
    before=$(used)
    (run "$target" "$seed") >"$scratch/output" 2>&1 || only_over "$scratch/output" || result=failed
    times >"$scratch/times"
    spent=$(used | awk -v before="$before" '{ printf "%.2f", ($1 - before) / 60 }')
    printf '%s\t%s\t%s\t%s\t%s\t%s\n' "$(date -u +%F)" "$(git rev-parse --short=12 HEAD)" "$target" "$seed" "$spent" \
      "$result" >>"$ledger"
    echo "$result $target: $spent processor minutes, seed $seed"
  else
    result=failed
  fi
  if [ "$result" = failed ]; then
    failed=1
    echo "FAILED $target"
    tail -n 60 "$scratch/output"
  fi
  if [ "$result" = failed ] || [ -z "$minutes" ]; then
    echo "$target" >>"$scratch/finished"
  fi
done
exit $failed
