package projectapi

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/boardsmith/boardsmith/cache"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/internal/chipkeeper/keepertest"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/testcache"
	"github.com/boardsmith/boardsmith/project"
)

var (
	must      = testkit.Must
	writeFile = testkit.WriteFile
	readFile  = testkit.ReadFile
	wantError = testkit.WantError
)

// serverVariable makes the test program a server: of this package's Folder, or of an echo.
const serverVariable = "PROJECTAPI_TEST_SERVER"

func TestMain(m *testing.M) {
	kind := os.Getenv(serverVariable)
	if kind == "" {
		keepertest.Main(m)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	dir, err := os.Getwd()
	if err == nil {
		err = serveMethods(ctx, os.NewFile(3, "read"), os.NewFile(4, "write"), methodsOf(kind, dir))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// folderAt returns the methods of a folder, which is closed with the test.
func folderAt(t *testing.T, dir string) *folder {
	f := methodsOf("folder", dir).(*folder)
	t.Cleanup(func() { must(t, f.Close()) })
	return f
}

// generated returns the methods of a new project.
func generated(t *testing.T, archive string, v values) *folder {
	t.Helper()
	f := folderAt(t, t.TempDir()+"/p")
	template := folderAt(t, folderOf(t, "none"))
	must(t, template.Generate(t.Context(), generation{Archive: archive, Dir: f.Dir}, v))
	return f
}

func methodsOf(kind, dir string) methods {
	if kind == "echo" {
		return &echo{}
	}
	if data, ok := strings.CutPrefix(kind, "theirs="); ok {
		s, err := newTheirs(data)
		if err != nil {
			panic(err)
		}
		return s
	}
	log := hclog.New(&hclog.LoggerOptions{Level: hclog.Warn})
	store := cache.New(testcache.Dir(), cache.Options{})
	return &folder{Folder: Folder{
		Dir: dir, Log: log,
		Builder: &project.Builder{Host: device.Host{Path: []string{dir}, Log: log, Cache: store}},
		Desk:    &device.Desk{Host: device.Host{Path: []string{dir}, Log: log, Cache: store}},
	}}
}
