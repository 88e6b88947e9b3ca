#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Starts the Project API server for TVM's Python: $BOARDSMITH_API_SERVER, else the one beside this file, else the one on
# PATH.
here=$(dirname -- "$0")
if [ -n "${BOARDSMITH_API_SERVER:-}" ]; then
  exec "$BOARDSMITH_API_SERVER" "$@"
fi
if [ -x "$here/microtvm-api-server" ]; then
  exec "$here/microtvm-api-server" "$@"
fi
if command -v microtvm-api-server >/dev/null 2>&1; then
  exec microtvm-api-server "$@"
fi
module=github.com/boardsmith/boardsmith/cmd/microtvm-api-server
echo "microtvm-api-server is not installed: go install $module@latest" >&2
exit 127
