// Command mutate checks the tests: it changes single lines of the sources, one at a time, and checks whether a test
// fails.
//
//	go run -C tools ./mutate -n 200 -seed 1 -out mutants.md
//
// A change replaces a comparison, a logical operator or a constant by another one, or removes a statement. Each is
// tried in a copy of the tree: one in Go with the tests that run its line, one in C with those that the table below
// names. It reports the changes that no test detected. A person then decides which of them are equivalent and adds
// these to equivalent.txt; they are not tried again. README.md has the results.
//
// It takes hours and is not part of any test run.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A suite is a group of sources and the tests that must detect a change in one of them.
type suite struct {
	sources  string     // pattern, from the tree's root
	packages []string   // for Go sources: packages whose tests are run, the nearest first
	tests    [][]string // for C sources: commands, the quickest first
}

var suites = []suite{
	{sources: "crt/src/*/*.c", tests: [][]string{
		{"make", "-s", "-C", "crt", "test"},
		{"make", "-s", "-C", "crt", "measure"},
		goTest("./rpc", "."),
		goTest("./project", "TestEveryArchive|TestFaults|TestOperatorFault|TestStuckMainLoop|TestFill"),
	}},
	{sources: "transport/*.go", packages: []string{"transport", "rpc"}},
	{sources: "internal/framing/*.go", packages: []string{"internal/framing", "transport", "rpc"}},
	{sources: "internal/tvmrpc/*.go", packages: []string{"internal/tvmrpc", "rpc", "serve"}},
	{sources: "rpc/*.go", packages: []string{"rpc", "executor", "device", "project"}},
	{sources: "cache/*.go", packages: []string{"cache", "project", "device"}},
	{sources: "flasher/*.go", packages: []string{"flasher", "device"}},
	{sources: "image/*.go", packages: []string{"device", "project"}},
	{sources: "device/*.go", packages: []string{"device"}},
	{sources: "project/*.go", packages: []string{"project"}},
	{sources: "project/templatecheck/*.go", packages: []string{"project/templatecheck"}},
	{sources: "project/internal/builddir/*.go", packages: []string{"project/internal/builddir", "project"}},
	{sources: "project/internal/buildenv/*.go", packages: []string{"project/internal/buildenv", "project"}},
	{sources: "project/internal/imagecheck/*.go", packages: []string{"project/internal/imagecheck", "project"}},
	{sources: "project/internal/postlink/*.go", packages: []string{"project/internal/postlink", "project"}},
	{sources: "project/internal/projectfile/*.go", packages: []string{"project/internal/projectfile", "project"}},
	{sources: "project/internal/ramlink/*.go", packages: []string{"project/internal/ramlink", "project", "tune"}},
	{sources: "project/internal/workdir/*.go", packages: []string{"project/internal/workdir", "project"}},
	{sources: "tune/space/*.go", packages: []string{"tune/space"}},
	{sources: "internal/files/jsonfile/*.go", packages: []string{"internal/files/jsonfile", "boards", "tune/space"}},
	{sources: "device/internal/ledger/*.go", packages: []string{"device/internal/ledger", "device"}},
	{sources: "internal/fit/*.go", packages: []string{"internal/fit", "project"}},
	{sources: "internal/stackdepth/*.go", packages: []string{"internal/stackdepth", "project"}},
	{sources: "rpc/fault/*.go", packages: []string{"rpc/fault", "rpc", "device", "project"}},
	{sources: "device/internal/faultimage/*.go", packages: []string{"device/internal/faultimage", "device", "project"}},
	{sources: "device/internal/desk/*.go", packages: []string{"device/internal/desk", "device"}},
	{sources: "device/internal/flashplan/*.go", packages: []string{"device/internal/flashplan", "device"}},
	{sources: "internal/gitfolder/*.go", packages: []string{"internal/gitfolder", "project"}},
	{sources: "internal/cachekey/*.go", packages: []string{"internal/cachekey", "project"}},
	{sources: "internal/firmware/*.go", packages: []string{"internal/firmware", "device", "project"}},
}

func goTest(pkg, run string) []string {
	return []string{"go", "test", pkg, "-failfast", "-count=1", "-timeout=15m", "-run=" + run}
}

// options are those of the command line.
type options struct {
	root    string
	n       int
	seed    uint64
	only    string
	own     bool   // only the tests of the nearest package
	names   string // of the Go tests to run, a pattern
	keep    string // "": coverage is not kept
	limit   time.Duration
	longest time.Duration
	out     string
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("mutate: ")

	var o options
	flag.StringVar(&o.root, "root", "..", "the tree to check; it is copied, and not changed")
	flag.IntVar(&o.n, "n", 200, "how many changes to try")
	flag.Uint64Var(&o.seed, "seed", 1, "draws the changes")
	flag.StringVar(&o.only, "only", "", "try only sources whose path begins with this")
	flag.BoolVar(&o.own, "own", false, "of Go tests, run only those of the nearest package")
	flag.StringVar(&o.names, "run", "^Test", "run only Go tests whose names match this pattern")
	flag.StringVar(&o.keep, "keep", "", "a folder that keeps the tests' coverage for other runs on the same sources")
	flag.DurationVar(&o.limit, "limit", 20*time.Minute, "for the tests of one change")
	flag.DurationVar(&o.longest, "longest", 10*time.Minute, "leave out Go tests that take longer, and list them")
	flag.StringVar(&o.out, "out", "mutants.md", "the report")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, o options) error {
	work, err := os.MkdirTemp("", "mutate-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if err := os.Setenv("TMPDIR", work); err != nil { // tests that are stopped leave their folders
		return err
	}

	clean := filepath.Join(work, "clean")
	if err := copyTree(ctx, o.root, clean); err != nil {
		return err
	}

	covers := &recorder{clean: clean, longest: o.longest, names: o.names, only: o.only, known: map[string]coverage{}}
	// Coverage that is kept is of one state of the sources.
	if o.keep != "" {
		sum, err := digest(clean)
		if err != nil {
			return err
		}
		covers.keep = filepath.Join(o.keep, fmt.Sprintf("%s-%v-%x", sum, o.longest, o.names+o.only))
	}

	all, err := collect(clean, o.only)
	if err != nil {
		return err
	}

	for i := range all {
		if o.own {
			all[i].packages = all[i].packages[:min(1, len(all[i].packages))]
		}
	}

	if err := unchanged(ctx, clean, all); err != nil {
		return err
	}

	// A trial changes a file, so each one that runs at a time has a copy of the tree.
	copies := make(chan string, runtime.NumCPU())
	for i := range cap(copies) {
		dir := filepath.Join(work, fmt.Sprint(i))
		if err := copyTree(ctx, o.root, dir); err != nil {
			return err
		}
		copies <- dir
	}

	rnd := rand.New(rand.NewPCG(o.seed, 0))
	rnd.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })

	log.Printf("%d changes are possible; trying %d", len(all), o.n)
	t := &trials{options: o, covers: covers, copies: copies}
	return t.run(ctx, all)
}

// trials are the changes tried so far. Several are tried at once, each in a copy of the tree.
type trials struct {
	options
	covers *recorder
	copies chan string // of the tree: those that no trial uses

	mu     sync.Mutex
	tried  []result
	failed error
}

// run tries changes in their order, at most one of each line, until there are enough results or one trial fails.
func (t *trials) run(ctx context.Context, all []mutant) error {
	var running sync.WaitGroup
	tried := map[string]bool{}
	for _, m := range all {
		line := fmt.Sprintf("%s:%d", m.file, m.line)
		if tried[line] {
			continue
		}
		tried[line] = true

		// This waits for a trial to end, which may have been the last one.
		dir := <-t.copies
		if t.ended(ctx) {
			break
		}

		running.Go(func() {
			defer func() { t.copies <- dir }()
			t.note(try(ctx, dir, m, t.covers, t.limit))
		})
	}

	running.Wait()
	return errors.Join(t.failed, ctx.Err())
}

func (t *trials) ended(ctx context.Context) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.tried) >= t.n || t.failed != nil || ctx.Err() != nil
}

// note adds a result and renews the report.
func (t *trials) note(r result, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		t.failed = err
	}
	// A change that does not compile says nothing about the tests.
	if err != nil || r.outcome == invalid {
		return
	}

	t.tried = append(t.tried, r)
	log.Printf("%3d %s", len(t.tried), r)
	if err := os.WriteFile(t.out, []byte(report(t.tried, t.seed)), 0o644); err != nil {
		t.failed = err
	}
}

// unchanged runs the tests of changes in C once without a change, because a test that fails anyway detects nothing.
func unchanged(ctx context.Context, root string, all []mutant) error {
	done := map[string]bool{}
	for _, m := range all {
		for _, test := range m.tests {
			name := strings.Join(test, " ")
			// Many changes have the same tests.
			if done[name] {
				continue
			}

			done[name] = true
			if output, err := command(ctx, root, test...); err != nil {
				return fmt.Errorf("without a change, %s: %w\n%s", name, err, output)
			}
			log.Printf("passes without a change: %s", name)
		}
	}
	return ctx.Err()
}

// copyTree copies the files that git tracks in the tree at root.
func copyTree(ctx context.Context, root, to string) error {
	list := exec.CommandContext(ctx, "git", "ls-files", "-z")
	list.Dir = root
	names, err := list.Output()
	if err != nil {
		return fmt.Errorf("git ls-files: %w", err)
	}

	for name := range strings.SplitSeq(strings.TrimRight(string(names), "\x00"), "\x00") {
		data, err := os.ReadFile(filepath.Join(root, name))
		if errors.Is(err, fs.ErrNotExist) {
			// A file that was deleted without a commit is still tracked.
			continue
		} else if err != nil {
			return err
		}

		info, err := os.Stat(filepath.Join(root, name))
		if err != nil {
			return err
		}

		if err := os.MkdirAll(filepath.Dir(filepath.Join(to, name)), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(to, name), data, info.Mode()); err != nil {
			return err
		}
	}
	return nil
}

// collect lists every possible change. Suites have equal weight, however long their sources are.
func collect(root, only string) ([]mutant, error) {
	groups := make([][]mutant, len(suites))
	most := 0
	for i, s := range suites {
		files, err := fs.Glob(os.DirFS(root), s.sources)
		if err != nil {
			return nil, err
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, "_windows.go") ||
				strings.HasSuffix(name, "_darwin.go") || !strings.HasPrefix(name, only) {
				continue
			}

			changes, err := mutantsOf(root, name)
			if err != nil {
				return nil, err
			}
			for _, m := range changes {
				m.tests, m.packages = s.tests, s.packages
				groups[i] = append(groups[i], m)
			}
		}

		most = max(most, len(groups[i]))
	}

	var all []mutant
	rnd := rand.New(rand.NewPCG(uint64(most), 1))
	for _, g := range groups {
		// A line that was changed since leaves an entry that no longer holds.
		for _, e := range stale(g) {
			return nil, fmt.Errorf("equivalent.txt: no such change: %q", e)
		}
		for i := 0; len(g) > 0 && i < most; i++ { // a short group repeats; one line is tried once
			all = append(all, g[rnd.IntN(len(g))])
		}
	}

	return all, nil
}

type outcome string

const (
	invalid  outcome = "does not compile"
	killed   outcome = "a test fails"
	hung     outcome = "a test hangs"
	survived outcome = "SURVIVED"
	same     outcome = "equivalent"
)

type result struct {
	mutant
	outcome outcome
	by      string // the test's own line
}

func (r result) String() string {
	return fmt.Sprintf("%s:%d %s: %s (%s)", r.file, r.line, r.what, r.outcome, r.by)
}

// try applies the change, runs its tests and reverts it.
func try(ctx context.Context, root string, m mutant, covers *recorder, limit time.Duration) (result, error) {
	if reason := equivalents[m.key()]; reason != "" {
		return result{mutant: m, outcome: same, by: reason}, nil
	}

	path := filepath.Join(root, m.file)
	source, err := os.ReadFile(path)
	if err != nil {
		return result{}, err
	}

	changed := slices.Concat(source[:m.from], []byte(m.to), source[m.end:])
	if err := os.WriteFile(path, changed, 0o644); err != nil {
		return result{}, err
	}
	defer os.WriteFile(path, source, 0o644) //nolint:errcheck // the copy is removed at the end

	r := result{mutant: m, outcome: survived}
	if !compiles(ctx, root, m.file) {
		r.outcome = invalid
		return r, ctx.Err()
	}

	commands := func(yield func([]string, error) bool) {
		for _, argv := range m.tests {
			if !yield(argv, nil) {
				return
			}
		}
	}

	// Tests in Go are chosen by the lines that they run.
	if m.packages != nil {
		commands = commandsOf(ctx, covers, m)
	}

	var took time.Duration
	n := 0
	for argv, err := range commands {
		if err != nil {
			return r, err
		}
		n++
		began := time.Now()
		// The time limit is for all commands of a change.
		within, cancel := context.WithTimeout(ctx, limit-took)
		output, err := command(within, root, argv...)
		late := within.Err() != nil
		cancel()
		took += time.Since(began)

		if ctx.Err() != nil {
			return r, ctx.Err()
		}

		if err != nil {
			r.outcome, r.by = killed, firstFailure(output)
			if late || bytes.Contains(output, []byte("panic: test timed out")) || strings.Contains(r.by, "Error 124") {
				r.outcome = hung
			}
			return r, nil
		}
	}

	r.by = fmt.Sprintf("%d commands", n)
	return r, nil
}

// compiles reports whether the changed file compiles; a change that the compiler refuses tests nothing.
func compiles(ctx context.Context, root, file string) bool {
	args := []string{"go", "build", "-o", os.DevNull, "./" + filepath.Dir(file)}
	if strings.HasSuffix(file, ".c") {
		args = []string{
			"gcc", "-std=c11", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror", "-O1",
			"-Icrt/include", "-Icrt/src", "-Icrt/test/config", "-c", "-o", os.DevNull, file,
		}
	}
	_, err := command(ctx, root, args...)
	return err == nil
}

func command(ctx context.Context, dir string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	// A test starts emulators and compilers, which must end with it.
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	return cmd.CombinedOutput()
}

// firstFailure returns the line that names a failed test.
func firstFailure(said []byte) string {
	for line := range strings.Lines(string(said)) {
		for _, mark := range []string{
			"--- FAIL: ", "[  FAILED  ] ", "ERROR: AddressSanitizer", "runtime error:",
			"Error 124", "panic: ",
		} {
			if strings.Contains(line, mark) {
				return strings.TrimSpace(line)
			}
		}
	}
	return "no line names it"
}

func report(tried []result, seed uint64) string {
	var b strings.Builder
	count := map[outcome]int{}

	for _, r := range tried {
		count[r.outcome]++
	}

	fmt.Fprintf(&b, "# Changes that the tests noticed\n\nSeed %d: %d tried, %d noticed by a failing test, %d by a "+
		"hanging one, %d equivalent, %d not noticed.\n\n",
		seed, len(tried), count[killed], count[hung], count[same], count[survived])

	b.WriteString("| where | change | outcome | by |\n|---|---|---|---|\n")
	for _, r := range tried {
		fmt.Fprintf(&b, "| %s:%d | `%s` | %s | %s |\n", r.file, r.line, strings.ReplaceAll(r.what, "|", "\\|"), r.outcome,
			strings.ReplaceAll(r.by, "|", "\\|"))
	}
	return b.String()
}
