package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"iter"
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

// covered returns the packages with known coverage: those with sources in Go whose paths begin with only.
func covered(only string) string {
	var packages []string
	for _, s := range suites {
		if dir, ok := strings.CutSuffix(s.sources, "/*.go"); ok && strings.HasPrefix(s.sources, only) {
			packages = append(packages, "./"+dir)
		}
	}
	return strings.Join(packages, ",")
}

// A coverage lists the tests of a package that run a block of statements. Its keys are those of a coverage profile,
// such as "transport/tcp.go:3.12,5.2". The list of a block that no test runs is empty.
type coverage map[string][]goTested

// of returns the tests that run the changed statement. A change in no block is in a condition, such as a case's, that
// other blocks of its function follow: any test of the function may run it. A change outside of functions, such as in a
// constant, concerns all tests that run code of its package.
func (c coverage) of(m mutant) []goTested {
	var tests, around []goTested
	var began position

	inBlock := false
	// Of several blocks around the change, the one that begins last counts.
	for block, ran := range c {
		file, span, _ := strings.Cut(block, ":")
		if m.function == ([2]position{}) && filepath.Dir(file) == filepath.Dir(m.file) {
			around = append(around, ran...)
		}

		if file != m.file {
			continue
		}

		var from, to position
		if _, err := fmt.Sscanf(span, "%d.%d,%d.%d", &from.line, &from.column, &to.line, &to.column); err != nil {
			panic(fmt.Sprintf("%q: %v", block, err))
		}

		if !m.at.before(from) && m.at.before(to) && (!inBlock || began.before(from)) {
			tests, began, inBlock = ran, from, true
		}

		if !from.before(m.function[0]) && !m.function[1].before(to) {
			around = append(around, ran...)
		}
	}

	if inBlock {
		return tests
	}

	slices.SortFunc(around, func(a, b goTested) int { return strings.Compare(a.Name, b.Name) })
	return slices.Compact(around)
}

// A goTested is a test function that runs a line.
type goTested struct {
	Name string
	Took time.Duration
}

// A recorder returns the coverage of packages. It records that of a package when a change first needs it.
type recorder struct {
	clean   string        // an unchanged copy of the tree
	keep    string        // a folder with coverage recorded by earlier runs; "" is none
	longest time.Duration // tests that take longer are left out
	names   string        // of tests, a pattern: others are left out
	only    string        // begins the paths of sources whose coverage is recorded
	mu      sync.Mutex
	known   map[string]coverage
}

func (r *recorder) of(ctx context.Context, pkg string) (coverage, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c, ok := r.known[pkg]; ok {
		return c, nil
	}

	// The folder is of these sources and options, so its coverage is still right.
	kept := filepath.Join(r.keep, strings.ReplaceAll(pkg, "/", "-")+".json")
	c := coverage{}
	if r.keep != "" && jsonfile(kept, &c) == nil {
		r.known[pkg] = c
		return c, nil
	}

	if err := r.cover(ctx, pkg, c); err != nil {
		return nil, err
	}

	r.known[pkg] = c
	if r.keep == "" {
		return c, nil
	}

	data, err := json.Marshal(c)
	if err == nil {
		err = os.MkdirAll(r.keep, 0o755)
	}
	if err == nil {
		err = os.WriteFile(kept, data, 0o644)
	}
	return c, err
}

func jsonfile(path string, to any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, to)
}

// digest returns a hash of the files of a copied tree.
func digest(root string) (string, error) {
	h := sha256.New()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		fmt.Fprintf(h, "%q %x\n", strings.TrimPrefix(path, root), sha256.Sum256(data))
		return err
	})
	return hex.EncodeToString(h.Sum(nil)[:8]), err
}

// quick is the maximum time of a test that is run first on a change.
const quick = 3 * time.Second

// cover runs each test of a package alone and records in covers which lines it runs, by file and number.
func (r *recorder) cover(ctx context.Context, pkg string, covers coverage) error {
	root, longest := r.clean, r.longest
	dir, err := os.MkdirTemp("", "cover-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)

	program := filepath.Join(dir, "test")
	if exists, err := r.compile(ctx, pkg, program); err != nil || !exists {
		return err
	}

	here := filepath.Join(root, pkg)
	names, err := listTests(ctx, here, program, r.names)
	if err != nil {
		return fmt.Errorf("%s: %w", pkg, err)
	}

	var (
		mu      sync.Mutex
		running sync.WaitGroup
		failed  []string
		n       int
	)

	// Each test runs alone: a profile does not say which of several tests ran a line.
	for range runtime.NumCPU() {
		running.Go(func() {
			for name := range names {
				profile := filepath.Join(dir, name)
				began := time.Now()
				within, cancel := context.WithTimeout(ctx, longest)
				output, err := command(within, here, program, "-test.run=^"+name+"$", "-test.coverprofile="+profile)
				// Read before cancel, which sets an error, too.
				late := within.Err() != nil
				cancel()

				took := time.Since(began)
				if late {
					log.Printf("left out after %v: %s in %s", longest, name, pkg)
					continue
				}

				if err != nil { // coverage may cause the failure: children that a test starts print about it
					output, err = command(ctx, root, goTest("./"+pkg, "^"+name+"$")...)
				}
				// Several tests note their lines in one map.
				mu.Lock()
				n++
				if err != nil {
					failed = append(failed, fmt.Sprintf("%s.%s: %v\n%s", pkg, name, err, output))
				} else if err := note(profile, goTested{name, took}, covers); err != nil {
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

// compile compiles a package's tests, if it has any.
func (r *recorder) compile(ctx context.Context, pkg, program string) (exists bool, err error) {
	build := []string{"go", "test", "-c", "-coverpkg=" + covered(r.only), "-o", program, "./" + pkg}
	if output, err := command(ctx, r.clean, build...); err != nil {
		return false, fmt.Errorf("%s: %w\n%s", pkg, err, output)
	}

	// A package without tests compiles, but to nothing.
	if _, err := os.Stat(program); os.IsNotExist(err) {
		log.Printf("no tests: %s", pkg)
		return false, nil
	}

	return true, nil
}

// listTests returns a closed channel with the names of those tests of a program that match a pattern.
func listTests(ctx context.Context, dir, program, pattern string) (<-chan string, error) {
	list, err := command(ctx, dir, program, "-test.list="+pattern)
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, list)
	}
	all := strings.Fields(string(list))
	// With room for all, so that the goroutines find a full channel that is closed.
	names := make(chan string, len(all))
	for _, name := range all {
		names <- name
	}
	close(names)
	return names, nil
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

	for {
		line, err := r.ReadString('\n')
		if err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}

		fields := strings.Fields(strings.TrimPrefix(line, module))
		if len(fields) != 3 {
			return fmt.Errorf("%s: %q", profile, line)
		}

		block, ran := fields[0], fields[2] != "0"
		if ran && !slices.Contains(covers[block], test) {
			covers[block] = append(covers[block], test)
		} else if covers[block] == nil {
			covers[block] = []goTested{}
		}
	}
}

// commandsOf yields the commands that run the tests of the changed line: the quick tests of each package, the nearest
// package first, then the slow ones.
func commandsOf(ctx context.Context, covers *recorder, m mutant) iter.Seq2[[]string, error] {
	return func(yield func([]string, error) bool) {
		for _, slow := range []bool{false, true} {
			for _, pkg := range m.packages {
				c, err := covers.of(ctx, pkg)
				if err != nil {
					yield(nil, err)
					return
				}
				for _, names := range portions(c.of(m), slow) {
					if !yield(append(goTest("./"+pkg, "^("+strings.Join(names, "|")+")$"), "-vet=off"), nil) {
						return
					}
				}
			}
		}
	}
}

// portions returns the names of the quick or of the slow tests, the quickest first, in portions. Each portion takes
// four times as long as the one before it: most changes fail in the first, and each costs a link.
func portions(tests []goTested, slow bool) [][]string {
	var all [][]string

	var portion []string
	room := quick
	took := time.Duration(0)
	for _, t := range slices.SortedFunc(slices.Values(tests), func(a, b goTested) int { return int(a.Took - b.Took) }) {
		if slow != (t.Took > quick) {
			continue
		}
		// Each run of some tests links the program: the first portion is small, as most changes fail in it.
		if portion != nil && took+t.Took > room {
			all, portion, took, room = append(all, portion), nil, 0, 4*room
		}
		portion, took = append(portion, t.Name), took+t.Took
	}

	if portion != nil {
		all = append(all, portion)
	}
	return all
}
