#!/bin/sh
# Lists lines with more than 120 characters in the sources of the folder $1: "a/b.go:12". A tab counts as one. Tables
# and code blocks of Markdown, lines with a URL, and lines of Go with a part of a raw string may be longer. Files of a
# testdata folder are data, except C.
set -eu
cd "$1"
find . -type d \( -name .git -o -name build \) -prune -o -type f \( -name '*.[Sch]' -o \
  -name .clang-format -o -name '*.go' -o -name '*.json' -o -name '*.ld' -o -name '*.md' -o -name '*.mk' -o \
  -name '*.mod' -o -name '*.py' -o -name '*.sh' -o -name CMakeLists.txt -o -name Makefile \) \
  ! \( -path '*/testdata/*' ! -name '*.[ch]' \) ! -path './targets/internal/schemas/*.json' -print |
  sort | LC_ALL=C xargs awk '
FNR == 1 { code = raw = 0; go = FILENAME ~ /\.go$/; md = FILENAME ~ /\.md$/ }
{ sub(/\r$/, ""); gsub(/[\200-\277]/, ""); longer = length > 120 && !/:\/\// } # the bytes that continue a character
md && /^[ \t]*```/ { code = !code }
md && (code || /^[ \t]*\|/) { longer = 0 }
go {
  rest = $0
  while (raw || match(rest, /"([^"\\]|\\.)*"|\047[^\047]+\047|\/\/|`/)) {
    if (raw) {
      longer = 0
      if (!(at = index(rest, "`"))) break
      rest = substr(rest, at + 1)
      raw = 0
      continue
    }
    token = substr(rest, RSTART, 1)
    rest = substr(rest, RSTART + RLENGTH)
    if (token == "/") break # a comment
    raw = token == "`"
  }
}
longer { print substr(FILENAME, 3) ":" FNR }'
