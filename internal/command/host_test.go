//go:build !windows

package command

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
)

// TestFaultOfHost: a signal, and what programs print of the system's errors, are the computer's fault; a source that
// has the same words is not.
func TestFaultOfHost(t *testing.T) {
	t.Parallel()
	for script, host := range map[string]bool{
		`kill -KILL $$`: true,
		`kill -SEGV $$`: true,
		`echo "gcc: fatal error: Killed signal terminated program cc1" >&2; exit 1`:                               true,
		`echo "collect2: fatal error: ld terminated with signal 9 [Killed]" >&2; exit 1`:                          true,
		`echo "gcc: internal compiler error: File size limit exceeded signal terminated program cc1"; false`:      true,
		`echo "cc1: out of memory allocating 65536 bytes after a total of 3276800 bytes"; false`:                  true,
		`echo "a.c:2:1: fatal error: error closing /tmp/a.s: No space left on device" >&2; exit 1`:                true,
		`echo "a.s: Fatal error: can't write 48 bytes to section .text of a.o: 'No space left on device'"; false`: true,
		`echo "/usr/bin/ld: final link failed: No space left on device" >&2; exit 1`:                              true,
		`echo "OSError: [Errno 28] No space left on device: 'a'" >&2; exit 1`:                                     true,
		`echo "a.c:1:10: fatal error: a.h: Too many open files" >&2; exit 1`:                                      true,
		`echo "make: *** [Makefile:2: a.o] Killed" >&2; exit 2`:                                                   true,
		`echo "make: *** [Makefile:2: a.o] Error 137" >&2; exit 2`:                                                true,
		`echo "make: fork: Resource temporarily unavailable" >&2; exit 2`:                                         true,
		`exec >/dev/full; echo full`: true,
		`echo "gcc: fatal error: cannot execute 'cc1': execvp: No such file or directory" >&2; exit 1`:      true,
		`echo "arm-none-eabi-gcc: fatal error: cannot execute 'as': execvp: Permission denied" >&2; exit 1`: true,
		`echo "gcc: error trying to exec 'cc1plus': execvp: No such file or directory" >&2; exit 1`:         true,
		`echo "collect2: fatal error: cannot find 'ld'" >&2; exit 1`:                                        true,
		`echo "clang-14: error: unable to execute command: Executable \"ld\" doesn't exist!"; false`:        true,
		`echo "cc1: fatal error: a.c: Input/output error" >&2; exit 1`:                                      true,
		`echo "a.c:1:10: fatal error: a.h: Stale file handle" >&2; exit 1`:                                  true,
		`echo "/usr/lib/gcc/../bin/ld: cannot open output file a.elf: Read-only file system" >&2; exit 1`:   true,
		`echo "arm-none-eabi-ld: final link failed: Input/output error" >&2; exit 1`:                        true,
		`echo "/tmp/c.s: Fatal error: can't close a.o: No space left on device" >&2; exit 1`:                true,
		`echo "cc1: error: closing a.s: Disk quota exceeded" >&2; exit 1`:                                   true,
		`echo "Cannot create temporary file in /gone/: No such file or directory" >&2; exit 1`:              true,

		`echo "Error: remote_bitbang_putc: Input/output error" >&2; exit 1`:                       false, // a programmer's
		`echo "a.c:1:2: error: #error ld: Read-only file system" >&2; exit 1`:                     false,
		`echo "    1 | #error \"gcc: fatal error: cannot execute 'cc1': execvp: x\"" >&2; exit 1`: false,
		`echo "a.c:1:2: error: #error gcc: fatal error: cannot execute 'cc1': no" >&2; exit 1`:    false,

		`kill -ABRT $$`: false, // a failed assertion
		`echo "make: *** [Makefile:2: a.o] Error 1" >&2; exit 2`:                            false,
		`echo "a.c:1:2: error: #error disk: No space left on device" >&2; exit 1`:           false,
		`echo "a.c:1:2: warning: #warning disk: No space left on device" >&2; exit 1`:       false,
		`echo "    1 | #error disk: No space left on device" >&2; exit 1`:                   false,
		`echo "{standard input}:5: Error: disk: No space left on device" >&2; exit 1`:       false,
		`echo "a.c:3:1: internal compiler error: Segmentation fault" >&2; exit 1`:           false,
		`echo "a.c:1:2: fatal error: Killed.h: No such file or directory" >&2; exit 1`:      false,
		`echo "disk: No space left on device" >&2`:                                          false, // it succeeds
		`echo "a.o: in function 'Killed': undefined reference to 'f'" >&2; exit 1`:          false,
		`echo "a.c:1:2: error: static assertion failed: \"x: Too many open files\""; false`: false,
	} {
		c := sh(script)
		c.Dir = t.TempDir()
		err := c.Run(t.Context())
		noRoom := host && strings.Contains(script, "No space left")
		if noRoom && (!strings.Contains(failure.Next(err), c.Dir+",") ||
			!strings.Contains(failure.Next(err), os.TempDir()+",")) {
			t.Errorf("%s: advice %q", script, failure.Next(err))
		}
		wantEqual(t, failure.Of(err) == failure.Host, host, script)
		if host && (failure.Next(err) == "" || strings.Contains(failure.Next(err), "see it again")) {
			t.Errorf("%s: advice %q", script, failure.Next(err))
		}
	}
}

// TestNotStarted: a program whose interpreter is missing is a missing tool, a working folder that is missing is not.
func TestNotStarted(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a tool")
	testkit.WriteProgram(t, path, "#!/no/such/interpreter\n")
	ctx := t.Context()
	wantError(t, Command{Path: path}.Run(ctx), failure.ToolMissing, "first line")
	wantError(t, last(Ask(ctx, path, "--version")), "", "first line")
	err := Command{Path: "/bin/true", Dir: "/not/there"}.Run(ctx)
	if !errors.Is(err, os.ErrNotExist) || failure.Of(err) != failure.Internal {
		t.Errorf("without its folder: %v: class %s", err, failure.Of(err))
	}
}
