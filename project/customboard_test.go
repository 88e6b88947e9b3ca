package project_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/cache"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/internal/testkit/testcache"
	"github.com/boardsmith/boardsmith/project"
	"github.com/boardsmith/boardsmith/release"
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
	loader := filepath.Join(t.TempDir(), "boot.elf")
	if out, err := exec.Command("arm-none-eabi-gcc", "-nostdlib", "-Wl,-Ttext=0,-e,start", "-o", loader,
		customExample+"/boards/boot.S").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	made, err := exec.Command("arm-none-eabi-objcopy", "-O", "ihex", loader, "/dev/stdout").Output()
	if err != nil {
		t.Fatal(err)
	}
	is, err := os.ReadFile(customExample + "/boards/boot.hex")
	lines := func(text []byte) string { return strings.ReplaceAll(string(text), "\r", "") }
	if err != nil || lines(made) != lines(is) {
		t.Errorf("boot.hex is not made of boot.S (%v):\n%s", err, made)
	}
	board := "kiln"
	builder := &project.Builder{
		Host:  device.Host{Path: []string{customExample}, Cache: cache.New(testcache.Dir(), cache.Options{})},
		Forms: true,
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
	built, err := p.Built()
	if err != nil {
		t.Fatal(err)
	}
	r, err := release.Of(p, built, release.Options{})
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(r.Files, func(f release.File) bool { return f.Name == "release.json" })
	type part struct{ Kind, Name, SHA256 string }
	var about struct{ Parts []part }
	if err := json.Unmarshal(r.Files[at].Data, &about); err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(about.Parts, func(x part) bool {
		return x.Kind == "board" && x.Name == board && len(x.SHA256) == 64
	}) {
		t.Errorf("the board's own C is no part: %+v", about.Parts)
	}
}
