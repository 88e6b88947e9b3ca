#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# cppcheck with its MISRA add-on over all of the runtime. Fails on any plain finding, on a violation of a rule that misra.md
# gives no reason to break, and where a file breaks a rule more often than misra.counts says (rules that misra.md breaks
# "everywhere" are not counted).
#
#   sh lint.sh            checks
#   sh lint.sh update     writes misra.counts anew, for a deviation that misra.md explains
set -eu
cd "$(dirname "$0")"
export LC_ALL=C
if ! command -v cppcheck >/dev/null; then
  echo 'lint: error: cppcheck is not installed (Debian: apt-get install cppcheck)' >&2
  exit 3
fi
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# One line per finding: id, file, line, text. -D: what a compiler defines and the headers ask for. On a copy, because the add-on
# writes beside the sources.
cp -R include src test "$tmp"
(cd "$tmp" && cppcheck --quiet --std=c11 --enable=warning,performance,portability --addon=misra --inline-suppr \
  --suppress=missingIncludeSystem -D__GNUC__ -DINT32_MAX=2147483647 -Iinclude -Isrc -Itest/config \
  --template='{id}\t{file}\t{line}\t{message}' src 2>"$tmp/all")
sort -u "$tmp/all" | grep -v '^[[:space:]]*$' >"$tmp/sorted" || true

grep -v '^misra-' "$tmp/sorted" >"$tmp/plain" || true
if [ -s "$tmp/plain" ]; then
  echo 'lint: cppcheck found:' >&2
  awk -F '\t' '{print $2 ":" $3 ": " $1 ": " $4}' "$tmp/plain" >&2
  exit 1
fi

grep -o '^| [0-9][0-9.]* | everywhere |' misra.md | tr -d '| ' | sed 's/everywhere//' >"$tmp/everywhere" || true
grep '^misra-' "$tmp/sorted" | sed 's/^misra-c2012-//' >"$tmp/misra" || true
awk -F '\t' 'NR == FNR {everywhere[$1]; next} !($1 in everywhere)' "$tmp/everywhere" "$tmp/misra" >"$tmp/counted"
cut -f 1 "$tmp/misra" | sort -uV >"$tmp/rules"
awk -F '\t' '{n[$1 "\t" $2]++} END {for (k in n) print k "\t" n[k]}' "$tmp/counted" | sort -V >"$tmp/counts"
if [ "${1:-}" = update ]; then
  { echo '# Deviations per rule and file; `sh lint.sh update` writes this file, misra.md says why.'; cat "$tmp/counts"; } >misra.counts
  echo "lint: $(wc -l <"$tmp/counts") entries written to misra.counts"
fi

status=0
while read -r rule; do
  grep -q "^| $rule |" misra.md || echo "$rule"
done <"$tmp/rules" >"$tmp/unexplained"
if [ -s "$tmp/unexplained" ]; then
  echo 'lint: rules that misra.md gives no reason to break:' $(cat "$tmp/unexplained") >&2
  status=1
fi
grep -o '^| [0-9][0-9.]* |' misra.md | tr -d '| ' | while read -r rule; do
  grep -qx "$rule" "$tmp/rules" || echo "$rule"
done >"$tmp/stale"
if [ -s "$tmp/stale" ]; then
  echo 'lint: rules that misra.md explains and nothing breaks:' $(cat "$tmp/stale") >&2
  status=1
fi
# What is new: more of a rule in a file than there were.
awk -F '\t' 'NR == FNR {was[$1 "\t" $2] = $3; next} $3 > was[$1 "\t" $2] + 0 {print $1 "\t" $2 "\t" $3 - was[$1 "\t" $2]}' misra.counts "$tmp/counts" >"$tmp/new"
if [ -s "$tmp/new" ]; then
  while IFS="$(printf '\t')" read -r rule file more; do
    echo "lint: MISRA C:2012 rule $rule: $more more than before in $file; all of them:" >&2
    grep "^misra-c2012-$rule	$file	" "$tmp/sorted" | cut -f 2,3 | tr '\t' ':' | sort -V | sed 's/^/  /' >&2
  done <"$tmp/new"
  echo 'lint: mend them, or explain the rule in misra.md and run `sh lint.sh update`' >&2
  status=1
fi
[ $status = 0 ] && echo "lint: no new violations ($(wc -l <"$tmp/misra") explained ones)"
exit $status
