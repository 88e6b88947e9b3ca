#!/bin/sh
# Prints, as a table, the time of one inference of the bundled sample on emulated boards, beside the instructions that
# QEMU runs for it, each of which takes the same time: sh tools/times.sh BOARD... Default: the boards with an emulator
# and, with ZEPHYR_BASE, some of Zephyr's. The instructions are counted by QEMU's log of every one; a time is right if
# it differs by less than 0.1 % from theirs. Run it alone: the log makes a start slow.
set -eu
cd "$(dirname "$0")/.."
if [ $# -eq 0 ]; then
  set -- $(grep -l '"kind": "qemu"' boards/*.json | sed 's,^boards/,,; s,\.json$,,')
  if [ -n "${ZEPHYR_BASE:-}" ]; then
    set -- "$@" zephyr/mps2_an385 zephyr/mps2_an521 zephyr/qemu_cortex_m3
  fi
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT INT TERM
for qemu in qemu-system-arm qemu-system-riscv32 qemu-system-riscv64; do
  program=$(command -v $qemu) || continue
  cat >"$scratch/$qemu" <<EOF
#!/bin/sh
case " \$* " in *' --version '*) exec $program "\$@" ;; esac
echo "\$*" >$scratch/words
exec $program "\$@" -singlestep -d exec,nochain -D $scratch/trace
EOF
  chmod +x "$scratch/$qemu"
done
PATH=$scratch:$PATH
export PATH
go tool mage -compile "$scratch/mage"

# Prints the instructions of the last call of the function at entry.
cat >"$scratch/count.awk" <<'EOF'
BEGIN { width = "%0" length(entry) "x" }
{ split($4, field, "/"); pc = field[2] }
inside { n++; if (pc == after2 || pc == after4) { last_call = n - 1; inside = 0 } }
!inside && pc == entry { inside = 1; n = 1; after2 = sprintf(width, before + 2); after4 = sprintf(width, before + 4) }
{ before = 0; for (i = 1; i <= length(pc); i++) before = before * 16 + index("0123456789abcdef", substr(pc, i, 1)) - 1 }
END { print last_call + 0 }
EOF

echo "| board | instructions | time | time of the instructions | difference |"
echo "|---|---|---|---|---|"
for board in "$@"; do
  rm -rf "$scratch/project" "$scratch/trace"
  if ! BOARD=$board TEMPLATE= MODEL= OPTIONS= APP=standalone REPEAT=1 JSON=1 PROGRAMMER=none \
    PROJECT=$scratch/project "$scratch/mage" run >"$scratch/lines" 2>"$scratch/errors"; then
    echo "| $board | $(grep -m1 'error: ' "$scratch/errors" | sed 's/^boardsmith: error: //') | | | |"
    continue
  fi
  seconds=$(sed -n 's/.*"step":"run".*/&/; s/.*"median":\([0-9.e-]*\).*/\1/p' "$scratch/lines" | tail -n 1)
  image=$(sed -n 's/.*"image":"\([^"]*\)".*"step":"build".*/\1/p' "$scratch/lines")
  shift=$(sed 's/.*-icount shift=\([0-9]*\).*/\1/' "$scratch/words")
  entry=$(nm "$image" | sed -n 's/^\([0-9a-f]*\) T tvmgen_[a-z0-9_]*___tvm_main__$/\1/p')
  instructions=$(awk -v entry="$(echo "$entry" | awk '{
    last = index("0123456789abcdef", substr($0, length($0))) - 1
    print substr($0, 1, length($0) - 1) substr("0022446688aaccee", last + 1, 1)
  }')" -f "$scratch/count.awk" "$scratch/trace")
  awk -v board="$board" -v n="$instructions" -v s="$seconds" -v shift="$shift" 'BEGIN {
    of = n * 2 ^ shift / 1e9
    printf "| %s | %d | %.4f ms | %.4f ms | %+.3f %% |\n", board, n, s * 1e3, of * 1e3, (s / of - 1) * 100
  }'
done
