//go:build linux

package project

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/cache"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit/boardstest"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
)

// TestFaultOfHost: a compiler or linker that a signal ended, or for whose file there is no room, is not an error in a
// source. The same build succeeds once the cause is gone.
func TestFaultOfHost(t *testing.T) {
	cc, err := exec.LookPath("cc")
	must(t, err)
	bin := filepath.Join(t.TempDir(), "a bin")
	must(t, os.MkdirAll(filepath.Join(bin, "killed"), 0o755))
	for _, name := range []string{"cc1", "ld"} {
		must(t, os.WriteFile(filepath.Join(bin, "killed", name), []byte("#!/bin/sh\nkill -KILL $$\n"), 0o755))
	}
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	compile := func(then string) {
		script := fmt.Sprintf("#!/bin/sh\ncase \" $* \" in *' -c '*) %s;; esac\nexec %s \"$@\"\n", then, cc)
		must(t, os.WriteFile(filepath.Join(bin, "faulty-cc"), []byte(script), 0o755))
	}
	compile(":")
	shelf := boardstest.Shelf(t, map[string]string{"faulty.json": `{"inherits": "cpu/native", "templates": ["baremetal"],
"arena_kib": 16384, "packet_bytes": 4096, "toolchain": {"cc": "faulty-cc", "ar": "ar", "install": "x"},
"link": {"kind": "process"}, "flash": {"programmer": "none"}, "sources": ["port/process.c"]}`})
	b := &Builder{Host: device.Host{Path: []string{shelf}, Cache: cache.New(t.TempDir(), cache.Options{})}}
	p, err := b.Generate(t.Context(), filepath.Join(t.TempDir(), "p"),
		Spec{Board: "faulty", Model: mlftest.Tiny(t, nil)})
	must(t, err)
	defer p.Close()
	for then, message := range map[string]string{
		"kill -KILL $$": "", // make's message depends on its version
		"exec " + cc + " -B '" + bin + "/killed/' \"$@\"": "Killed signal terminated program cc1",
		"exec " + cc + " \"$@\" -o /dev/full":             "No space left on device",
		"ulimit -f 0":                                     "File size limit exceeded",
	} {
		compile(then)
		_, err := p.Build(t.Context())
		var tool *ToolError
		if !errors.As(err, &tool) || tool.Class != failure.Host || failure.Of(err) != failure.Host ||
			!strings.Contains(err.Error(), message) {
			t.Errorf("%s: %v (%s)", then, err, failure.Of(err))
		}
		if next := failure.Next(err); !strings.Contains(next, "repeat") {
			t.Errorf("%s: advice %q", then, next)
		}
	}
	compile(":")
	built(t, p)
}
