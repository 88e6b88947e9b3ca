// This file generates what varies from board to board: crt_config.h for C, board.mk for make.

package project

import (
	"fmt"
	"strings"

	"github.com/boardsmith/boardsmith/boards"
)

// generators are the files that a template may ask for. They depend on the board and its settled options only, so
// that one compiled runtime serves every model of a board.
var generators = map[string]func(*boards.Board, boards.Options) []byte{
	"crt_config/crt_config.h": configHeader,
	"crt_config/board.mk":     boardMakefile,
}

// configHeader sets no limit on rank, arguments or names: the runtime has none.
func configHeader(b *boards.Board, o boards.Options) []byte {
	var w strings.Builder
	fmt.Fprintf(&w, `// SPDX-License-Identifier: 0BSD
// Board %s, for the runtime and the firmware.
#ifndef CRT_CONFIG_H_
#define CRT_CONFIG_H_

#define BOARDSMITH_ARENA_BYTES %d
#define TVM_CRT_MAX_PACKET_SIZE_BYTES %d
#define TVM_CRT_GLOBAL_FUNC_REGISTRY_SIZE_BYTES %d
#define TVM_CRT_LOG_LEVEL TVM_CRT_LOG_LEVEL_%s
`, b.Name, o.ArenaKiB*1024, o.PacketBytes, o.RegistryBytes, strings.ToUpper(o.LogLevel))
	if len(b.Functions) > 0 {
		w.WriteString("\n// Functions of the board's own: the name the host finds it by, and the C function.\n#define BOARDSMITH_BOARD_FUNCTIONS(X)")
		for _, f := range b.Functions {
			fmt.Fprintf(&w, " \\\n  X(\"%s\", %s)", f.Name, f.Symbol) // both are plain words: boards has checked
		}
		w.WriteString("\n")
	}
	w.WriteString("\n#endif  // CRT_CONFIG_H_\n")
	return []byte(w.String())
}

func boardMakefile(b *boards.Board, o boards.Options) []byte {
	return fmt.Appendf(nil, `# SPDX-License-Identifier: 0BSD
# Board %s, for the Makefile.
CC := %s
AR := %s
BOARD_CFLAGS :=%s
BOARD_LDFLAGS :=%s
RUNTIME_OPT := %s
OPERATOR_OPT := %s
`, b.Name, makeWords(b.Toolchain.CC)[1:], makeWords(b.Toolchain.AR)[1:], makeWords(b.CFlags...), makeWords(b.LDFlags...), o.RuntimeOpt, o.OperatorOpt)
}

// makeWords writes words as a recipe of make hands them to the shell, each preceded by a blank.
func makeWords(words ...string) string {
	var w strings.Builder
	for _, word := range words {
		w.WriteString(" " + strings.NewReplacer("$", "$$", "#", `\#`).Replace(shellWord(word)))
	}
	return w.String()
}

// shellWord quotes a word for the shell where it needs it.
func shellWord(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_=+.,/:@%", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
