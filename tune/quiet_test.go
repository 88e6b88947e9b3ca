//go:build linux

package tune_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/cache"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/project"
	"github.com/boardsmith/boardsmith/tune"
)

// watching returns n candidates that write a line to a file for each call during which a compiler runs, and one line
// to another file for all calls.
func watching(n int, running, disturbed, calls string) (all []tune.Candidate) {
	body := `static int called;
  if (called++ == 0) {
    FILE* log = fopen("` + calls + `", "a");
    fputs("called\n", log);
    fclose(log);
  }
  DIR* folder = opendir("` + running + `");
  for (struct dirent* e; (e = readdir(folder)) != NULL;) {
    if (e->d_name[0] != '.') {
      FILE* log = fopen("` + disturbed + `", "a");
      fprintf(log, "%s\n", e->d_name);
      fclose(log);
    }
  }
  closedir(folder);
`
	for i := range n {
		c := operator(fmt.Sprintf("watching %d", i), body+right+fmt.Sprintf("volatile int k = %d; (void)k;", i))
		c.Operators.Files[0].Data = append([]byte("#include <dirent.h>\n#include <stdio.h>\n"), c.Operators.Files[0].Data...)
		all = append(all, c)
	}
	return all
}

// TestNoCompilerRunsDuringMeasurements measures on two processes, in RAM and in firmware.
func TestNoCompilerRunsDuringMeasurements(t *testing.T) {
	running, logs := testkit.WatchCompiler(t), t.TempDir()
	disturbed, calls := logs+"/disturbed", logs+"/calls"
	const n = 12
	r, _ := opened(t, tune.Options{
		Builder: &project.Builder{Host: device.Host{Cache: cache.New(t.TempDir(), cache.Options{})}}, Samples: 10,
	}, "host", "host")
	for _, result := range measureAll(t, r, watching(n, running, disturbed, calls)) {
		wantFailure(t, result, "")
	}
	confirm(t, r, 2)
	if data, err := os.ReadFile(calls); strings.Count(string(data), "\n") < n {
		t.Errorf("not every candidate was called: %q, %v", data, err)
	}
	if data, err := os.ReadFile(disturbed); !os.IsNotExist(err) {
		t.Errorf("%d calls while a compiler ran, %v", strings.Count(string(data), "\n"), err)
	}
}

// TestReferenceOutlierIsNoDrift slows the reference down once, and then for good.
func TestReferenceOutlierIsNoDrift(t *testing.T) {
	once, always := t.TempDir()+"/once", t.TempDir()+"/always"
	reference := operator("reference", fmt.Sprintf(`
  if (called++ == 0) { // since it was loaded
    slow = (unlink("%s") == 0) || (access("%s", F_OK) == 0);
  }
  for (volatile int i = 0; slow && i < 3000000; i++) {}
  %s`, once, always, right))
	reference.Operators.Files[0].Data = append([]byte("#include <unistd.h>\nstatic int called, slow;\n"),
		reference.Operators.Files[0].Data...)
	recovered := make(chan string, 100)
	r, _ := opened(t, tune.Options{
		Reference: &reference, Drift: 100, Every: 1, MaxRecoveries: 1,
		OnEvent: on("recovering", func(e tune.Event) { recovered <- fmt.Sprint(e.Err) }),
	}, "host")
	cs := goods(20)
	measured(t, r, cs[0]) // the reference was measured before
	writeFile(t, once, "")
	for _, c := range cs[1:3] {
		measured(t, r, c)
	}
	if len(recovered) > 0 {
		t.Errorf("recovered after an outlier: %s", <-recovered)
	}
	if _, err := os.Stat(once); !os.IsNotExist(err) {
		t.Fatal("the reference was never slow")
	}
	writeFile(t, always, "")
	var err error
	for i := 3; i < len(cs) && err == nil; i++ {
		_, err = r.Measure(t.Context(), cs[i])
	}
	wantError(t, err, "", "the reference: it takes") // the place is given up
	testkit.WantText(t, <-recovered, "the reference: it takes")
}
