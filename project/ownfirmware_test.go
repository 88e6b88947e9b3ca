package project_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/cache"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/internal/testkit/testcache"
	"github.com/boardsmith/boardsmith/project"
	"github.com/boardsmith/boardsmith/rpc/fault"
)

// TestOwnFirmware builds the example of a user's own firmware. The model's outputs are right, the firmware's own code
// runs beside the server, and its faults and endless calls are explained.
func TestOwnFirmware(t *testing.T) {
	t.Parallel()
	const example = "../examples/own-firmware"
	for _, tool := range []string{"make", "arm-none-eabi-gcc", "qemu-system-arm"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("no %s", tool)
		}
	}
	builder := &project.Builder{
		Host: device.Host{Path: []string{example}, Cache: cache.New(testcache.Dir(), cache.Options{})},
	}
	model := mlftest.Path(t, "digits_i8.aot_c")
	p, err := builder.Generate(t.Context(), filepath.Join(t.TempDir(), "p"), project.Spec{
		Board: "own_mps2_an386", Template: example + "/firmware", Model: model,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	name := filepath.Join(p.Dir(), "app", "main.c")
	source, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	const unused = "  (void)num_args;\n"
	bad := strings.Replace(string(source), unused, `  if (num_args == 1) {
    beats = *(volatile uint32_t*)0xC0000000U;
  }
  while (num_args == 2) {
  }
`, 1)
	if bad == string(source) {
		t.Fatalf("%s has no %q", name, unused)
	}
	if err := os.WriteFile(name, []byte(bad), 0o644); err != nil {
		t.Fatal(err)
	}
	runProject(t, t.Context(), p, model)

	s, err := p.Run(t.Context(), nil, "")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(t.Context())
	beats := func(args ...any) (int64, error) {
		f, err := s.Function(t.Context(), "app.beats")
		if err != nil {
			return 0, err
		}
		n, err := f.Call(t.Context(), args...)
		if err != nil {
			return 0, err
		}
		return n.(int64), nil
	}
	first, err := beats()
	for now := first; now == first && err == nil; {
		now, err = beats()
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := s.SetBudget(t.Context(), 100*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	for n, reason := range []fault.Reason{fault.ReasonHardware, fault.ReasonTimeout} {
		_, err := beats(make([]any, n+1)...)
		faultErr := new(fault.Error)
		if !errors.As(err, &faultErr) || faultErr.Record.Reason != reason || len(faultErr.Frames) == 0 ||
			faultErr.Frames[0].Function != "app_beats" || filepath.Base(faultErr.Frames[0].File) != "main.c" {
			t.Errorf("%d arguments: %v", n+1, err)
		}
	}
}
