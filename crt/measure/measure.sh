#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Measures the runtime for a Cortex-M3: builds two small firmwares with -Os alone, prints the size of one by part, and
# counts the instructions of the other in QEMU; then both with a list of signatures (boardsmith/boardsmith.h), and the
# first with the AOT executor, which the metadata of a model bring in (tvm/runtime/metadata_types.h), and with -flto;
# and memcpy, memmove and memset, also with -O3 and -flto, with which compilers recognise such loops. Prints each figure
# with its limit in `ceilings`, the budget, and the figure of TVM 0.14's runtime. Fails if a figure exceeds its limit in
# `ceilings`. The budgets are those of the compiler named there: with another one, a quarter more is allowed.
#
#   sh measure.sh BUILD     BUILD: the folder for build results
set -eu
cd "$(dirname "$0")"
export LC_ALL=C
mkdir -p "$1"
build=$(cd "$1" && pwd)
cc=${MEASURE_CC:-arm-none-eabi-gcc}
qemu=${MEASURE_QEMU:-qemu-system-arm}
for tool in "$cc:gcc-arm-none-eabi libnewlib-arm-none-eabi" "$qemu:qemu-system-arm"; do
  command -v "${tool%%:*}" >/dev/null || {
    echo "measure: error: ${tool%%:*} is not installed (Debian: apt-get install ${tool#*:})" >&2
    exit 3
  }
done
cpu='-mcpu=cortex-m3 -mthumb'
warn='-Wall -Wextra -Wconversion -Wshadow -Wundef -Wmissing-prototypes -Wvla -Werror'
flags="$cpu -Os -std=c11 --specs=nano.specs -ffunction-sections -fdata-sections -I../include -I../src -Iconfig"

# firmware NAME MAIN FLAGS: $build/NAME.elf and .map
firmware() {
  out=$build/$1
  rm -rf "$out"
  mkdir -p "$out"
  objects=
  for source in ../src/*/*.c board.c "$2"; do
    object=$out/$(echo "${source#../src/}" | tr / _).o
    # shellcheck disable=SC2086 # lists of flags
    $cc $flags $warn $3 -c -o "$object" "$source"
    objects="$objects $object"
  done
  # shellcheck disable=SC2086
  $cc $cpu -Os --specs=nano.specs -nostartfiles -Wl,--gc-sections -Wl,-Map="$out.map" -T link.ld -o "$out.elf" $objects
}

# counted NAME: runs the firmware and prints its figures
counted() {
  timeout 60 "$qemu" -machine mps2-an385 -display none -monitor none -serial stdio -icount shift=6 \
    -semihosting-config enable=on,target=native -kernel "$build/$1.elf" </dev/null
}

firmware serve serve.c ''
firmware aot serve.c '-DMEASURE_AOT'
firmware measure measure.c '-DMEASURE'
firmware packet measure.c '-DMEASURE -DMEASURE_PACKET_BYTES=8192'
firmware signed serve.c '-DBOARDSMITH_SIGNATURES'
firmware lto serve.c '-flto'
firmware lto_aot serve.c '-flto -DMEASURE_AOT'
firmware memory memory.c ''
firmware memory_fast memory.c -O3
firmware memory_lto memory.c '-O3 -flto'
firmware signed_measure measure.c '-DMEASURE -DBOARDSMITH_SIGNATURES'
counted measure >"$build/figures"
counted signed_measure | sed 's/^/signed_/' >"$build/signed_figures"
counted memory >"$build/memory_figures"
counted memory_fast | sed 's/^/fast_/' >>"$build/memory_figures"
counted memory_lto | sed 's/^/lto_/' >>"$build/memory_figures"
counted packet | sed 's/^/packet_/' >"$build/packet_figures"

# The image by part, from the linker's map: the sections of each object in the image.
awk '
  /^Linker script and memory map/ { on = 1 }
  !on { next }
  /^\.[a-zA-Z]/ { section = $1 }
  # " .text.name" alone, or followed by its address, size and object
  /^ \.[a-zA-Z]|^ COMMON/ { name = $1; if (NF == 1) { next } size = $3; object = $4 }
  /^ +0x/ && NF == 3 && name != "" { size = $2; object = $3 }
  size != "" && (section == ".text" || section == ".data" || section == ".ARM.exidx" || section == ".bss") {
    part = "firmware"
    if (object ~ /libgcc/) part = "libgcc"
    else if (object ~ /lib[a-z_]*\.a/) part = "libc"
    else if (object ~ /rpc_[a-z0-9]*\.c/) part = "RPC"
    else if (object ~ /runtime_/) part = "runtime"
    if (section != ".bss") print part, size
  }
  { size = ""; object = ""; if ($0 !~ /^ \.[a-zA-Z]/) name = "" }' "$build/serve.map" >"$build/pieces"
awk '
  function hex(s,  i, n) {
    n = 0
    for (i = 3; i <= length(s); i++) n = n * 16 + index("0123456789abcdef", substr(s, i, 1)) - 1
    return n
  }
  { sum[$1] += hex($2) }
  END {
    n = split("runtime RPC firmware libgcc libc", part, " ")
    for (i = 1; i <= n; i++) printf "%-22s %6d\n", "  " part[i], sum[part[i]]
  }' \
  "$build/pieces" >"$build/parts"

size=${cc%gcc}size
nm=${cc%gcc}nm
set -- $($size "$build/serve.elf" | tail -n 1)
image=$(($1 + $2))
static=$(($2 + $3))
arena=$($nm -S --defined-only "$build/serve.elf" | awk '$4 == "arena" { print $2 }')
taken=$(awk '$1 == "taken" { print $2 }' "$build/figures")
image_of() {
  $size "$build/$1.elf" | awk 'END { print $1 + $2 }'
}
{
  echo "image $image"
  echo "aot_image $(image_of aot)"
  echo "signed_image $(image_of signed)"
  echo "lto_image $(image_of lto)"
  echo "lto_aot_image $(image_of lto_aot)"
  echo "ram $((static - 0x$arena + taken))"
  cat "$build/figures" "$build/packet_figures" "$build/signed_figures" "$build/memory_figures"
} >"$build/all"

# Budgets and TVM 0.14's figures; those of copies are per byte, of 4096. A byte ff is two bytes of a frame: a copy to
# the device may cost twice as much as one of random bytes.
awk -v parts="$build/parts" -v compiler="$($cc -dumpversion)" '
  BEGIN {
    n = split("image aot_image ram call_1 call_128 copy_to_1 copy_to_128 packet_copy_to_1 packet_copy_to_128 " \
              "ff_copy_to_1 ff_copy_to_128 copy_from_1 copy_from_128 ff_copy_from_1 ff_copy_from_128 " \
              "add_128 signed_image signed_call_128 signed_add_128 lto_image lto_aot_image " \
              "memcpy memcpy_unaligned memset", order, " ")
    text["image"] = "image, bytes"; budget["image"] = 8500
    text["aot_image"] = "image, AOT executor"; budget["aot_image"] = 9750; tvm["aot_image"] = 29184
    text["ram"] = "RAM, bytes"; budget["ram"] = 1800; tvm["ram"] = 4492
    text["call_1"] = "empty call, by 1"; budget["call_1"] = 2100; tvm["call_1"] = 12400
    text["call_128"] = "empty call, by 128"; budget["call_128"] = 1200; tvm["call_128"] = 4086
    text["copy_to_1"] = "CopyToRemote, by 1"; budget["copy_to_1"] = 40; tvm["copy_to_1"] = 309.5
    text["copy_to_128"] = "CopyToRemote, by 128"; budget["copy_to_128"] = 12; tvm["copy_to_128"] = 32.7
    text["packet_copy_to_1"] = "  8 KiB buffer, by 1"; budget["packet_copy_to_1"] = 40; tvm["packet_copy_to_1"] = 309.5
    text["packet_copy_to_128"] = "  8 KiB buffer, by 128"; budget["packet_copy_to_128"] = 12
    tvm["packet_copy_to_128"] = 32.7
    text["copy_from_1"] = "CopyFromRemote, by 1"; budget["copy_from_1"] = 12; tvm["copy_from_1"] = 30.9
    text["copy_from_128"] = "CopyFromRemote, by 128"; budget["copy_from_128"] = 12; tvm["copy_from_128"] = 30.9
    text["ff_copy_to_1"] = "  all bytes ff, by 1"; budget["ff_copy_to_1"] = 160
    text["ff_copy_to_128"] = "  all bytes ff, by 128"; budget["ff_copy_to_128"] = 14
    text["ff_copy_from_1"] = text["ff_copy_to_1"]; budget["ff_copy_from_1"] = 24
    text["ff_copy_from_128"] = text["ff_copy_to_128"]; budget["ff_copy_from_128"] = 14
    text["add_128"] = "call, 3 tensors, by 128"; budget["add_128"] = 3000
    text["signed_image"] = "with signatures: image"; budget["signed_image"] = 8950
    text["signed_call_128"] = "  empty call, by 128"; budget["signed_call_128"] = 1230
    text["lto_image"] = "with -flto: image"; budget["lto_image"] = 7900
    text["lto_aot_image"] = "  image, AOT executor"; budget["lto_aot_image"] = 9300
    text["memcpy"] = "memcpy of 8 KiB"; budget["memcpy"] = 4000
    text["memcpy_unaligned"] = "  unaligned"; budget["memcpy_unaligned"] = 11000
    text["memset"] = "memset of 8 KiB"; budget["memset"] = 4000
    text["signed_add_128"] = "  call, 3 tensors"; budget["signed_add_128"] = 3100
  }
  FILENAME ~ /ceilings$/ { if ($0 !~ /^#/ && NF == 2) ceiling[$1] = $2; next }
  { figure[$1] = ($1 ~ /copy_/) ? $2 / 4096 : $2 }
  END {
    printf "%-24s %9s %9s %9s %9s\n", "", "measured", "ceiling", "budget", "TVM 0.14"
    for (i = 1; i <= n; i++) {
      k = order[i]
      format = (k ~ /copy_/) ? "%-24s %9.2f %9.2f %9.1f %9s%s\n" : "%-24s %9d %9d %9d %9s%s\n"
      other = compiler != ceiling["compiler"]
      if (other) ceiling[k] = budget[k] * 1.25
      if (!(k in figure) || !(k in ceiling)) {
        printf "measure: error: no figure or ceiling for %s\n", k
        failed = 1
        continue
      }
      note = (figure[k] > ceiling[k]) ? "  over its ceiling" : (figure[k] > budget[k]) ? "  over budget" : ""
      if (figure[k] > ceiling[k] || !other && note != "") failed = 1
      printf format, text[k], figure[k], ceiling[k], budget[k], tvm[k], note
      if (k == "image") while ((getline line < parts) > 0) print line
    }
    if (figure["copied"] != 1 || figure["packet_copied"] != 1 || figure["ff_copied"] != 1 ||
        figure["packet_ff_copied"] != 1 || figure["answered"] < 4096 || figure["ff_answered"] < 8192 ||
        figure["added"] != 2 || figure["signed_added"] != 2) {
      print "measure: error: the copies did not arrive, or a call failed"
      failed = 1
    }
    if (figure["memory_right"] != 1 || figure["fast_memory_right"] != 1 || figure["lto_memory_right"] != 1) {
      print "measure: error: memcpy, memmove or memset differs from a loop over bytes"
      failed = 1
    }
    exit failed
  }' ceilings "$build/all"
