#!/bin/sh
# Measures the model on the emulated chip. With BASE, a commit, it measures there first and compares: measure.md is the
# table of both, measure.csv that of this commit. Ends with code 4 if something has grown by more than LIMITS allows. A
# base that cannot be measured, such as one without the model, is reported and compared with nothing.
set -e
mage=${MAGE:-./bs}
# Compiles the targets of the working folder: "go tool mage measure" may exit with 0 if it is stopped.
compile() { [ -n "$MAGE" ] || go tool mage -compile bs; }
export BOARD=desk_chip MODEL=models/sine.aot_packed.tar
export INPUT=models/sine.inputs.npz EXPECT=models/sine.outputs.npz COMPARE=abs=1e-5
if [ -n "$BASE" ]; then
	folder=$(git rev-parse --show-prefix) # of this example in its repository
	tree=$(mktemp -d "$(git rev-parse --show-toplevel).base-XXXXXX") # beside it: go.mod may name ../boardsmith
	git worktree add --detach "$tree" "$BASE"
	trap 'git worktree remove --force "$tree"' EXIT
	rm -f base.json measure.md measure.csv
	here=$PWD
	(cd "$tree/$folder" && compile && BASELINE=$here/base.json UPDATE=1 "$mage" measure) || echo "the base has failed" >&2
	[ ! -e base.json ] || export BASELINE=base.json
fi
compile
OUTPUT=measure.md CSV=measure.csv "$mage" measure
