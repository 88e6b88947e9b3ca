package targets

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/internal/testkit"
)

// TestToolchainNotices: a map has the licence texts of the packages with its C library and the compiler's own, each
// once, whatever the links on their paths.
func TestToolchainNotices(t *testing.T) {
	t.Parallel()
	const want = "libnewlib-arm-none-eabi"
	for _, board := range []string{"mps2_an385", "microbit"} {
		if exec.Command("dpkg-query", "-W", want).Run() != nil {
			continue // another distribution, or the compiler is not installed
		}
		b, err := boards.Find(board, nil)
		testkit.Must(t, err)
		text := "LOAD build/libraries/nn.a\nLOAD /none/libc.a\n"
		for _, library := range []string{"libc.a", "libm.a", "libgcc.a", "libgcc.a"} {
			path, err := exec.Command(b.Toolchain.CC, append(b.CFlags, "-print-file-name="+library)...).Output()
			testkit.Must(t, err)
			text += "LOAD " + strings.TrimSpace(string(path)) + "\n"
		}
		file := filepath.Join(t.TempDir(), "firmware.map")
		testkit.WriteFile(t, file, text)
		notices, err := toolchainNotices(t.Context(), file)
		if err != nil || len(notices) != 2 || notices[0].Name != want+".copyright" ||
			notices[1].Name != "gcc-arm-none-eabi.copyright" || !bytes.Contains(notices[0].Data, []byte("opyright")) {
			t.Errorf("%s: %d notices, %v", board, len(notices), err)
		}
	}
}
