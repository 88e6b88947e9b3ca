// This file checks sources without running them.

package develop

import (
	"context"
)

// misra checks MISRA's rules too, which takes as long as the rest of lint.
var misra = check{name: "cppcheck and MISRA", argv: []string{"sh", "crt/lint.sh"}, needs: "cppcheck"}

// lintChecks are the checks of lint.
func (r *repository) lintChecks() []check {
	all := []check{{name: "cppcheck", argv: []string{"sh", "crt/lint.sh", "brief"}, needs: "cppcheck"}}
	for _, system := range []string{"linux", "windows", "darwin"} {
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
	if err := r.setupForTests(ctx); err != nil {
		return err
	}
	if err := r.runChecks(ctx, r.lintChecks(), &t); err != nil {
		return err
	}
	return r.conclude(&t)
}
