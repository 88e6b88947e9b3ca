package project_test

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/boardsmith/boardsmith/cache"
	"github.com/boardsmith/boardsmith/internal/mlftest"
	"github.com/boardsmith/boardsmith/internal/testcache"
	"github.com/boardsmith/boardsmith/project"
)

const customExample = "../examples/custom-board"

// TestCustomBoard builds the example of a custom board: its boot loader starts the image only with a header and a list
// of hash and signature, and the model's outputs are right.
func TestCustomBoard(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"make", "arm-none-eabi-gcc", "qemu-system-arm", "python3"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("no %s", tool)
		}
	}
	board := "kiln"
	builder := &project.Builder{
		Path: []string{customExample}, Cache: cache.New(testcache.Dir(), cache.Options{}), Forms: true,
	}
	if path, err := exec.LookPath("imgtool"); err == nil {
		key := filepath.Join(t.TempDir(), "kiln.pem")
		if out, err := exec.Command(path, "keygen", "--key", key, "--type", "ed25519").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		board, builder.Variables = "kiln_imgtool", map[string]string{"KILN_KEY": key}
	} else {
		t.Log("no imgtool: the image is hashed by the example's sign.py, and not signed")
	}
	model := mlftest.Path(t, "digits_i8.aot_c")
	p, err := builder.Generate(t.Context(), filepath.Join(t.TempDir(), "p"), project.Spec{Board: board, Model: model})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	runProject(t, t.Context(), p, model)
}
