package accept

import (
	"bytes"
	"strconv"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/cache"
	"github.com/boardsmith/boardsmith/crt"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/internal/testkit/testcache"
	"github.com/boardsmith/boardsmith/project"
)

// TestUnitArchives packs each file of tests: nothing of the second runtime has a name of the first one's.
func TestUnitArchives(t *testing.T) {
	for _, name := range unitTests {
		text, err := crt.Sources.Tests.ReadFile("test/test_" + name + ".c")
		testkit.Must(t, err)
		a, err := unitArchive(name, text)
		testkit.Must(t, err)
		found := 0
		for _, f := range a.Files {
			switch {
			case strings.HasSuffix(f.Name, "/unit_names.h"):
				found++
				for _, name := range []string{"TVMFuncCall", "boardsmith_vformat", "main", "TVMPlatformMemoryAllocate"} {
					if !bytes.Contains(f.Data, []byte("#define "+name+" unit_"+name+"\n")) {
						t.Errorf("%s keeps its name", name)
					}
				}
				if bytes.Contains(f.Data, []byte("#define TVM_")) && !bytes.Contains(f.Data, []byte("#undef TVM_")) {
					t.Error("a macro of the runtime was renamed")
				}
			case strings.HasSuffix(f.Name, "/unit_test_"+name+".c"):
				found++
				if !bytes.HasPrefix(f.Data, []byte("#include \"unit_names.h\"\n")) {
					t.Errorf("%s begins with %.40q", f.Name, f.Data)
				}
			}
		}
		testkit.Equal(t, name+": files", found, 2)
	}
}

// TestWrongUnitTest runs unit tests of which one is wrong: the error has its line.
func TestWrongUnitTest(t *testing.T) {
	t.Parallel()
	if !drawn.InFull() {
		t.Skip("in full tests only: it compiles the runtime")
	}
	text, err := crt.Sources.Tests.ReadFile("test/test_registry.c")
	testkit.Must(t, err)
	before, after, ok := bytes.Cut(text, []byte("  (void)state;\n"))
	if !ok {
		t.Fatal("test_registry.c has no test")
	}
	wrong := bytes.Join([][]byte{before, []byte("  assert_int_equal(1, 2);\n"), after}, nil)
	c, home := cache.New(testcache.Dir(), cache.Options{}), t.TempDir()
	r := &run{Trial: Trial{
		Board: "host", Builder: &project.Builder{Host: device.Host{Cache: c}},
		Desk: &device.Desk{Host: device.Host{Cache: c}, StateDir: home, LeaseDir: home},
	}, home: t.TempDir()}
	defer r.end()
	_, err = r.build(t.Context(), 0)
	testkit.Must(t, err)
	r.board = r.projects[0].Board()
	r.device, err = r.Desk.Attach(t.Context(), r.board, "")
	testkit.Must(t, err)
	var found Result
	err = r.unit(t.Context(), "registry", wrong, &found)
	line := bytes.Count(before, []byte("\n")) + 1
	testkit.WantError(t, err, failure.WrongAnswer, "crt/test/test_registry.c:"+strconv.Itoa(line)+" is wrong")
}
