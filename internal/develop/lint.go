// This file checks sources without running them.

package develop

import (
	"context"
)

// lintChecks are the checks of lint. Brief ones check the template's C with fewer boards, and no build for macOS.
func (r *repository) lintChecks(brief bool) []check {
	misra := []string{"sh", "crt/lint.sh"}
	if brief {
		misra = append(misra, "brief")
	}
	all := []check{{name: "cppcheck and MISRA", argv: misra, needs: "cppcheck"}} // the longest one first
	systems := []string{"linux", "windows", "darwin"}
	if brief {
		systems = systems[:2] // nearly all of macOS's files are Linux's, too
	}
	for _, system := range systems {
		all = append(all, check{
			name: "vet for " + system, argv: []string{"go", "vet", "./..."},
			env: []string{"GOOS=" + system, "CGO_ENABLED=0"},
		})
	}
	tool := func(name string, args ...string) []string {
		return append([]string{"go", "tool", "-modfile=tools/go.mod", name}, args...)
	}
	return append(all,
		check{name: "vet of the magefile", argv: []string{"go", "vet", "-tags=mage", "."}},
		check{name: "vet of the tools", argv: []string{"go", "vet", "-C", "tools", "./..."}},
		check{name: "staticcheck", argv: tool("staticcheck", "./...")},
		check{name: "gofumpt", argv: tool("gofumpt", "-l", "."), silent: true},
		check{name: "unreachable functions", argv: []string{"sh", "tools/unreachable.sh"}, silent: true, needs: "sh"},
		check{name: "length of lines", argv: []string{"sh", "tools/columns.sh", "."}, silent: true, needs: "sh"},
		check{name: "layout of the C", argv: []string{"make", "-C", "crt", "layout"}, needs: "clang-format"},
		check{name: "the runtime by every compiler", argv: []string{"make", "-C", "crt", "compilers"}, needs: "gcc"},
	)
}

func (r *repository) lint(ctx context.Context) error {
	var t tally
	if err := r.runChecks(ctx, r.lintChecks(false), &t); err != nil {
		return err
	}
	return r.conclude(&t)
}
