#!/bin/sh
# Lists functions that no target, command or example reaches. Mage writes the program that has all targets.
set -eu
cd "$(dirname "$0")/.."
mkdir -p build
dir=$(mktemp -d build/unreachable.XXXXXX)
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' INT TERM
cp magefile.go "$dir"
go tool mage -d "$dir" -keep -compile "$PWD/$dir/targets"
sed '1s/.*/\/\/go:build mage/;2d' "$dir/mage_output_file.go" >"$dir/main.go" # it has "ignore" there
rm "$dir/mage_output_file.go"
go tool -modfile=tools/go.mod deadcode -tags=mage "./$dir" ./cmd/... ./examples/... >"$dir/found"
# What remains is for tests, or for Go programs: docs/tuning.md, docs/measure.md, docs/go-api.md.
grep -Ev -e '^internal/testkit/' -e '^project/.*: Repository$' -e '^measure/.*: Model$' \
  -e '^tune/.*: Candidate$' "$dir/found" || true
