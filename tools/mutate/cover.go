package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

const module = "github.com/boardsmith/boardsmith/"

// covered returns the packages with known coverage: those with sources in Go.
func covered() string {
	var packages []string
	for _, s := range suites {
		if dir, ok := strings.CutSuffix(s.sources, "/*.go"); ok {
			packages = append(packages, "./"+dir)
		}
	}
	return strings.Join(packages, ",")
}

// A coverage lists the tests that run a line, by file and number. The list of a line in no statement of its own, such
// as a case's condition, is nil. The list of a line that no test runs is empty.
type coverage map[string][]goTested

// of returns the tests that run a line. For a line in no statement, it uses the statement above.
func (c coverage) of(file string, line int) []goTested {
	for ; line > 0; line-- {
		if tests, ok := c[fmt.Sprintf("%s:%d", file, line)]; ok {
			return tests
		}
	}
	return nil
}

// A goTested is a test function that runs a line.
type goTested struct {
	pkg, name string
	took      time.Duration
}

// quick is the maximum time of a test that is run first on a change.
const quick = 3 * time.Second

// cover runs each test of a package alone and records in covers which lines it runs, by file and number.
func cover(ctx context.Context, root, pkg string, covers coverage) error {
	dir, err := os.MkdirTemp("", "cover-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	program := filepath.Join(dir, "test")
	if said, err := command(ctx, root, "go", "test", "-c", "-coverpkg="+covered(), "-o", program, "./"+pkg); err != nil {
		return fmt.Errorf("%s: %w\n%s", pkg, err, said)
	}
	here := filepath.Join(root, pkg)
	list, err := command(ctx, here, program, "-test.list=^Test")
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", pkg, err, list)
	}
	names := make(chan string)
	go func() {
		defer close(names)
		for _, name := range strings.Fields(string(list)) {
			names <- name
		}
	}()
	var (
		mu      sync.Mutex
		running sync.WaitGroup
		failed  []string
		n       int
	)
	for range runtime.NumCPU() {
		running.Go(func() {
			for name := range names {
				profile := filepath.Join(dir, name)
				began := time.Now()
				said, err := command(ctx, here, program, "-test.run=^"+name+"$", "-test.timeout=10m", "-test.coverprofile="+profile)
				took := time.Since(began)
				if err != nil { // coverage may cause the failure: children that a test starts print about it
					said, err = command(ctx, root, goTest("./"+pkg, "^"+name+"$")...)
				}
				mu.Lock()
				n++
				if err != nil {
					failed = append(failed, fmt.Sprintf("%s.%s: %v\n%s", pkg, name, err, said))
				} else if err := note(profile, goTested{pkg, name, took}, covers); err != nil {
					failed = append(failed, err.Error())
				}
				mu.Unlock()
			}
		})
	}
	running.Wait()
	if len(failed) > 0 || ctx.Err() != nil {
		return fmt.Errorf("without a change: %s", strings.Join(append(failed, fmt.Sprint(ctx.Err())), "\n"))
	}
	log.Printf("passes without a change: %s, %d tests", pkg, n)
	return nil
}

// note reads a profile with lines such as "file.go:3.12,5.2 1 1": start, end, number of statements, and whether they
// ran.
func note(profile string, test goTested, covers coverage) error {
	f, err := os.Open(profile)
	if os.IsNotExist(err) {
		return nil // not a test of this system
	} else if err != nil {
		return err
	}
	defer f.Close()
	r := bufio.NewReader(f)
	if _, err := r.ReadString('\n'); err != nil { // skips the line with the mode
		return err
	}
	seen := map[string]bool{}
	for {
		line, err := r.ReadString('\n')
		if err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		file, rest, _ := strings.Cut(strings.TrimPrefix(line, module), ":")
		var from, to, column, statements, ran int
		if _, err := fmt.Sscanf(rest, "%d.%d,%d.%d %d %d", &from, &column, &to, &column, &statements, &ran); err != nil {
			return fmt.Errorf("%q: %w", line, err)
		}
		for n := from; n <= to; n++ {
			at := fmt.Sprintf("%s:%d", file, n)
			switch _, known := covers[at]; {
			case ran > 0 && !seen[at]:
				seen[at] = true
				covers[at] = append(covers[at], test)
			case !known:
				covers[at] = []goTested{}
			}
		}
	}
}

// commandsOf returns the commands that run these tests: the quick tests of each package, the nearest package first,
// then the slow ones.
func commandsOf(tests []goTested, packages []string) [][]string {
	var quickOnes, slowOnes [][]string
	for _, pkg := range packages {
		var names [2][]string
		for _, t := range slices.SortedFunc(slices.Values(tests), func(a, b goTested) int { return int(a.took - b.took) }) {
			if t.pkg == pkg {
				slow := 0
				if t.took > quick {
					slow = 1
				}
				names[slow] = append(names[slow], t.name)
			}
		}
		run := func(names []string) [][]string {
			if len(names) == 0 {
				return nil
			}
			return [][]string{append(goTest("./"+pkg, "^("+strings.Join(names, "|")+")$"), "-vet=off")}
		}
		quickOnes, slowOnes = append(quickOnes, run(names[0])...), append(slowOnes, run(names[1])...)
	}
	return append(quickOnes, slowOnes...)
}
