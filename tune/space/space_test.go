package space

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/files/jsonfile"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/ndarray"
)

var (
	must      = testkit.Must
	writeFile = testkit.WriteFile
	wantError = testkit.WantError
)

// parse makes a space of knobs and constraints, both as lists in JSON without their brackets.
func parse(t testing.TB, knobs, constraints string) *Space {
	t.Helper()
	s, err := parseFile(fmt.Appendf(nil, `{"kernel": ["matmul.c"], "entry": "f", "knobs": [%s], "constraints": [%s]}`,
		knobs, constraints), "testdata/space.json")
	must(t, err)
	return s
}

// spaces are small ones of each kind of knob.
func spaces(t testing.TB) map[string]*Space {
	matmul, err := Read("testdata/matmul.json")
	must(t, err)
	return map[string]*Space{
		"matmul": matmul,
		"alone":  parse(t, `{"name": "a", "define": [3]}`, ""),
		"twins":  parse(t, `{"name": "a", "flags": [[], ["-x"]]}, {"name": "b", "flags": [["-x"], []]}`, ""),
		"mixed":  parse(t, `{"name": "a", "define": ["4", 5, "05", "", "<&>é"]}, {"name": "b", "range": {"from": -3, "to": 9, "step": 4}}`, ""),
		"sum": parse(t, `{"name": "a", "define": [9, 1, 5]}, {"name": "b", "range": {"from": 0, "to": 9}}, {"name": "c", "range": {"from": 3, "to": 40, "powers_of_two": true}}`,
			`"a + b + c == 20", "c / (a - 5) != 2"`),
	}
}

// proposers returns one of each kind.
func proposers(s *Space) map[string]Proposer {
	return map[string]Proposer{"grid": s.Grid(), "random": s.Random(1), "evolve": s.Evolve(1)}
}

// everything returns all configurations of a small space without a Proposer.
func everything(s *Space) []Config {
	var all []Config
	index := make([]int, len(s.knobs))
	for {
		if s.violated(index) < 0 {
			all = append(all, s.config(index))
		}
		k := len(index) - 1
		for ; k >= 0; k-- {
			if index[k]++; index[k] < s.knobs[k].count {
				break
			}
			index[k] = 0
		}
		if k < 0 {
			return all
		}
	}
}

// drain returns all that a Proposer proposes.
func drain(t *testing.T, p Proposer) []Config {
	t.Helper()
	var all []Config
	for {
		c, ok := p.Next()
		if !ok {
			break
		}
		all = append(all, c)
		p.Report(c, float64(len(c.String())), len(all)%5 != 0)
	}
	must(t, p.Err())
	return all
}

func TestProposersCoverTheSpaceOnce(t *testing.T) {
	for name, s := range spaces(t) {
		want := everything(s)
		if grid := drain(t, s.Grid()); !slices.Equal(grid, want) {
			t.Errorf("%s: Grid proposes %d configurations, want %d in order", name, len(grid), len(want))
		}
		for kind, p := range map[string]Proposer{"random": s.Random(7), "evolve": s.Evolve(7)} {
			got, all := drain(t, p), map[Config]bool{}
			for _, c := range append(got, want...) {
				all[c] = true
			}
			if len(got) != len(want) || len(all) != len(want) {
				t.Errorf("%s: %s proposes %d configurations; the space has %d, both %d", name, kind, len(got), len(want), len(all))
			}
		}
	}
}

func TestEqualSeedsGiveEqualProposals(t *testing.T) {
	s := spaces(t)["matmul"]
	first := func(p Proposer) []Config {
		var all []Config
		for range 60 {
			c, _ := p.Next()
			p.Report(c, float64(c.Indices()[0]), true)
			all = append(all, c)
		}
		return all
	}
	for name, make := range map[string]func(seed uint64) Proposer{
		"random": func(seed uint64) Proposer { return s.Random(seed) },
		"evolve": func(seed uint64) Proposer { return s.Evolve(seed) },
	} {
		if !slices.Equal(first(make(1)), first(make(1))) {
			t.Errorf("%s: two runs with one seed differ", name)
		}
		if slices.Equal(first(make(1)), first(make(2))) {
			t.Errorf("%s: two seeds give the same proposals", name)
		}
	}
}

// TestReportedConfigurationsAreNotProposed: what an earlier run measured is not proposed again, and is a parent.
func TestReportedConfigurationsAreNotProposed(t *testing.T) {
	s := spaces(t)["matmul"]
	all := everything(s)
	for name, p := range proposers(s) {
		for _, c := range all[:len(all)/2] {
			p.Report(c, 1, true)
		}
		testkit.Equal(t, name, len(drain(t, p)), len(all)-len(all)/2)
	}
	defer func() {
		if recover() == nil {
			t.Error("Report took a configuration of another space")
		}
	}()
	s.Random(1).Report(everything(spaces(t)["alone"])[0], 1, true)
}

func TestGoroutinesGetDifferentProposals(t *testing.T) {
	s := spaces(t)["matmul"]
	for name, p := range proposers(s) {
		var mu sync.Mutex
		seen := map[Config]bool{}
		var done sync.WaitGroup
		for range 8 {
			done.Go(func() {
				for range 100 {
					c, ok := p.Next()
					if !ok {
						t.Errorf("%s: nothing was proposed: %v", name, p.Err())
						continue
					}
					p.Report(c, float64(c.Indices()[1]), true)
					mu.Lock()
					seen[c] = true
					mu.Unlock()
				}
			})
		}
		done.Wait()
		testkit.Equal(t, name, len(seen), 800)
	}
}

// landscape is the cost of a kernel with tiles: it is lowest where the tiles fit into a cache, and knobs depend on each
// other. Configurations that unroll more than 8 times fail.
func landscape(c Config) (cost float64, ok bool) {
	at := c.Indices()
	m, n, k, unroll, vector, flags := at[0], at[1], at[2], at[3], at[4], at[5]
	cost = 100 + 7*math.Abs(float64(m+n+k-10)) + 5*math.Abs(float64(m-n)) + 3*float64((flags*5)%7)
	cost += 2 * math.Abs(float64(unroll)-float64(2*vector))
	if n < vector {
		cost += 25
	}
	return cost, unroll < 9
}

const landscapeKnobs = `
	{"name": "m", "range": {"from": 1, "to": 128, "powers_of_two": true}},
	{"name": "n", "range": {"from": 1, "to": 128, "powers_of_two": true}},
	{"name": "k", "range": {"from": 1, "to": 128, "powers_of_two": true}},
	{"name": "unroll", "range": {"from": 0, "to": 12}},
	{"name": "vector", "define": [1, 2, 4, 8, 16]},
	{"name": "opt", "flags": [[], ["-O1"], ["-O2"], ["-O3"], ["-Os"], ["-Og"], ["-Ofast"]]}`

// search returns the lowest cost in 200 measurements, four at a time, and how many of the last 100 failed.
func search(p Proposer) (best float64, failed int) {
	best = math.Inf(1)
	for range 50 {
		var batch []Config
		for range 4 {
			c, _ := p.Next()
			batch = append(batch, c)
		}
		for n, c := range batch {
			cost, ok := landscape(c)
			if ok {
				best = min(best, cost)
			} else {
				failed, cost = failed+1, float64(-n) // a failure's cost must not count
			}
			p.Report(c, cost, ok)
		}
	}
	return best, failed
}

func TestEvolveBeatsRandom(t *testing.T) {
	s := parse(t, landscapeKnobs, `"m * n <= 4096"`)
	const seeds = 20
	var random, evolve, randomFailed, evolveFailed, wins float64
	for seed := range uint64(seeds) {
		r, rf := search(s.Random(seed))
		e, ef := search(s.Evolve(seed))
		random, evolve = random+r-100, evolve+e-100
		randomFailed, evolveFailed = randomFailed+float64(rf), evolveFailed+float64(ef)
		if e <= r {
			wins++
		}
	}
	t.Logf("above the minimum: random %.2f, evolve %.2f; failed: random %.0f, evolve %.0f; evolve wins %.0f of %d",
		random/seeds, evolve/seeds, randomFailed/seeds, evolveFailed/seeds, wins, seeds)
	if evolve > random/2 || wins < 0.8*seeds {
		t.Errorf("evolve ends %.2f above the minimum, random %.2f", evolve/seeds, random/seeds)
	}
	if evolveFailed > randomFailed/2 {
		t.Errorf("%.0f proposals of evolve failed, %.0f of random", evolveFailed, randomFailed)
	}
}

// million3 is a space of 1e18 combinations.
const million3 = `
	{"name": "a", "range": {"from": 1, "to": 1000000}},
	{"name": "b", "range": {"from": 1, "to": 1000000}},
	{"name": "c", "range": {"from": 1, "to": 1000000}}`

func TestHugeSpaces(t *testing.T) {
	s := parse(t, million3, "")
	testkit.Equal(t, "size", s.Size().String(), "1000000000000000000")
	for name, p := range proposers(s) {
		for range 1000 {
			c, ok := p.Next()
			if !ok {
				t.Fatalf("%s: %v", name, p.Err())
			}
			p.Report(c, float64(c.Indices()[0]), true)
		}
	}
}

// TestSearchGivesUp: where no configuration is found, the error names the constraint.
func TestSearchGivesUp(t *testing.T) {
	long := "c < 0" + strings.Repeat(" && c > 0", 111) // 1,004 bytes
	for _, c := range []struct{ knobs, constraints, want string }{
		{
			million3, `"a > 0", "` + long + `"`,
			`no configuration was found among 33222 combinations; most were rejected by the constraint "` + long + `"`,
		},
		{
			`{"name": "a", "range": {"from": 1, "to": 9}}, {"name": "b", "range": {"from": 1, "to": 9}}`,
			`"a > 2", "b % 2 == 1 && b % 2 == 0"`,
			`no configuration was found among 81 combinations; most were rejected by the constraint "b % 2 == 1 && b % 2 == 0"`,
		},
	} {
		s := parse(t, c.knobs, c.constraints)
		for kind, p := range proposers(s) {
			if got, ok := p.Next(); ok {
				t.Errorf("%s proposes %v", kind, got)
			}
			err := p.Err()
			var fe *jsonfile.Error
			if !errors.As(err, &fe) || fe.Line != s.constraints[1].line || fe.Err.Error() != c.want ||
				failure.Of(err) != failure.Config || failure.Next(err) == "" {
				t.Errorf("%s: got  %v\nwant %s", kind, err, c.want)
			}
		}
	}
}

// TestFewInALargeSpace: the first knobs leave few combinations, and each is found.
func TestFewInALargeSpace(t *testing.T) {
	const knobs = `{"name": "a", "range": {"from": 1, "to": 512}}, {"name": "b", "range": {"from": 1, "to": 512}}`
	s := parse(t, knobs, `"a * b == 512", "a <= b"`)
	for name, p := range proposers(s) {
		testkit.Equal(t, name, len(drain(t, p)), 5)
	}
}

func TestConfigs(t *testing.T) {
	ids := map[string]string{}
	for name, s := range spaces(t) {
		for _, c := range everything(s) {
			if other, double := ids[c.ID()]; double {
				t.Errorf("%v and %s have the ID %s", c, other, c.ID())
			}
			ids[c.ID()] = name + " " + c.String()
			data, err := json.Marshal(c)
			must(t, err)
			if read, ok := s.Config(data); !ok || read != c {
				t.Errorf("%s is read as %v, %v", data, read, ok)
			}
		}
	}
	s := parse(t, `{"name": "A", "define": [1, 2]}`, `"A != 2"`)
	for _, other := range []string{`{"A":2}`, `{"A":3}`, `{"A":"1"}`, `{"B":1}`, `{"A":1,"B":1}`, `{}`, ``} {
		if c, ok := s.Config([]byte(other)); ok {
			t.Errorf("%s is %v", other, c)
		}
	}
}

// TestIDs: an ID changes with all that could change a result, and with nothing else.
func TestIDs(t *testing.T) {
	const args = `"args": [{"dtype": "int8", "shape": [4], "data": {"file": "a.npz", "array": "a"}}], `
	const text = `{"kernel": ["k.c"], "entry": "f", ` + args + `"knobs": [{"name": "a", "define": [1, 2]}]}`
	id := func(text, kernel string, first byte) string {
		dir := t.TempDir()
		testkit.WriteFiles(t, dir, map[string]string{"k.c": kernel, "k2.c": kernel})
		a := &ndarray.Array{DType: dtype(t, "int8"), Shape: []int64{4}, Data: []byte{first, 0, 0, 0}}
		if strings.Contains(text, "uint8") {
			a.DType = dtype(t, "uint8")
		}
		if strings.Contains(text, "[2, 2]") {
			a.Shape = []int64{2, 2}
		}
		must(t, ndarray.WriteNPZ(dir+"/a.npz", []ndarray.Named{{Name: "a", Array: a}}))
		s, err := parseFile([]byte(text), dir+"/s.json")
		must(t, err)
		for _, c := range everything(s) {
			if c.String() == "a=2" {
				return c.ID()
			}
		}
		t.Fatalf("%s: no configuration a=2", text)
		return ""
	}
	want := id(text, "x", 0)
	testkit.Equal(t, "the ID in results of earlier versions", want, "1aac4b2ceb444df9")
	with := func(from, to string) string { return id(strings.Replace(text, from, to, 1), "x", 0) }
	for _, same := range []string{
		with("[1, 2]", "[0, 2, 1]"), with(`"define": [1, 2]`, `"range": {"from": 0, "to": 9}`),
		with(`"knobs"`, `"constraints": ["a > 1"], "knobs"`),
	} {
		testkit.Equal(t, "ID", same, want)
	}
	others := map[string]string{
		"kernel": id(text, "x2", 0), "data": id(text, "x", 1),
		"entry":   with(`"f"`, `"g"`),
		"file":    with(`k.c`, `k2.c`),
		"shape":   with(`[4]`, `[2, 2]`),
		"dtype":   with(`int8`, `uint8`),
		"no args": with(args, ""),
		"as want": with(`"data"`, `"want"`),
		"seed":    with(`"data": {"file": "a.npz", "array": "a"}`, `"seed": 0`),
		"no data": with(`, "data": {"file": "a.npz", "array": "a"}`, ``),
	}
	changed := map[string]string{want: "nothing"}
	for what, got := range others {
		if as := changed[got]; as != "" {
			t.Errorf("%s: the ID %s is that of %s", what, got, as)
		}
		changed[got] = what
	}
}

func TestBadFiles(t *testing.T) {
	const head = `{"kernel": ["matmul.c"], "entry": "f", `
	const one = `"knobs": [{"name": "a", "define": [1]}],`
	knob := func(text string) string { return head + "\n\"knobs\": [\n{" + text + "}]}" }
	constraint := func(text string) string {
		return head + `
"knobs": [{"name": "a", "range": {"from": 1, "to": 9}}, {"name": "b", "define": [1, "x"]}, {"name": "f", "flags": [[]]}],
"constraints": ["a > 1",
"` + text + `"]}`
	}
	for _, c := range []struct{ text, want string }{
		{head + "\n\"knob\": []}", `x.json:2: field "knob" is not known; did you mean "knobs"?`},
		{
			knob(`"name": "a", "range": {"form": 1}`),
			`x.json:3: field "knobs[0].range.form" is not known; did you mean "knobs[0].range.from"?`,
		},
		{head + "\n\"knobs\": 3}", `x.json:2: knobs: a number, where a list belongs`},
		{"[]", `x.json:1: the file is not one object`},
		{head + "\n\"knobs\": []}", `x.json:2: knobs: missing`},
		{
			head + "\n\"knobs\": [" + knobs(1001) + "]}",
			`x.json:2: knobs[1000]: k1000: a space has at most 1000 knobs`,
		},
		{
			strings.Replace(head, `"f"`, "\n\"f g\"", 1) + `"knobs": []}`,
			`x.json:1: entry: "f g" is not a C identifier`,
		},
		{
			`{` + one + ` "entry": "f", "kernel": [` + "\n" + `"../matmul.c"]}`,
			`x.json:2: kernel[0]: "../matmul.c" is not the name of another file beside the space file`,
		},
		{`{` + one + ` "entry": "f", "kernel": ["matmul.c",` + "\n" + `"matmul.c"]}`, `x.json:2: kernel[1]: "matmul.c" is not the name of another`},
		{`{` + one + ` "entry": "f", "kernel": ["missing.c"]}`, `x.json:1: kernel[0]: open testdata/missing.c: `},
		{`{` + one + ` "kernel": ["matmul.c"], "function": "f", "entry": "f"}`, `x.json: it must have one of entry, function; it has 2`},
		{
			knob("\"name\": \"a\", \"define\": [1]},\n{\"name\": \"a\", \"define\": [1]"),
			`x.json:4: knobs[1]: a: there are two knobs of this name`,
		},
		{knob(`"name": "a b", "define": [1]`), `x.json:3: knobs[0].name: "a b" is not a C identifier`},
		{`{"entry": "f",` + "\n" + `"kernel": []}`, `x.json:2: kernel: missing`},
		{`{"entry": "f", "kernel": ["matmul.c",` + "\n" + `"matmul.o"]}`, `x.json:2: kernel[1]: "matmul.o" is none of .c, .h`},
		{`{"function": "f g", "kernel": []}`, `x.json:1: function: "f g" is not a C identifier`},
		{knob(`"name": "a"`), `x.json:3: knobs[0]: it must have one of define, range, flags; it has 0`},
		{knob(`"name": "a", "define": []`), `x.json:3: knobs[0]: a: it has no value`},
		{knob(`"name": "a", "define": [1.5]`), `1.5 is not an integer of 64 bits; put other numbers in quotes`},
		{knob(`"name": "a", "define": [true]`), `true is neither a number nor a text`},
		{knob(`"name": "a", "define": [1, "1"]`), `it has the value 1 twice`},
		{knob(`"name": "a", "flags": [["-a"], [""]]`), `x.json:3: knobs[0].flags[1][0]: "" is not a text that is not empty`},
		{knob(`"name": "a", "flags": [["-a"], ["-a"]]`), `it has the value [-a] twice`},
		{knob(`"name": "a", "flags": [null, []]`), `it has the value [] twice`},
		{knob(`"name": "a", "range": {"from": 1}`), `x.json:3: knobs[0].range.to: missing`},
		{knob(`"name": "a", "range": {"from": 2, "to": 1}`), `the range from 2 to 1 is empty`},
		{knob(`"name": "a", "range": {"from": 1, "to": 2, "step": 0}`), `x.json:3: knobs[0].range.step: 0 is not between 1 and`},
		{
			knob(`"name": "a", "range": {"from": 1, "to": 2, "step": 1, "powers_of_two": true}`),
			`powers of two start at 1, and have no step`,
		},
		{knob(`"name": "a", "range": {"from": 0, "to": 2, "powers_of_two": true}`), `powers of two start at 1, and have no step`},
		{knob(`"name": "a", "range": {"from": 5, "to": 7, "powers_of_two": true}`), `the range from 5 to 7 is empty`},
		{
			knob(`"name": "a", "range": {"from": 4611686018427387905, "to": 9223372036854775807, "powers_of_two": true}`),
			` is empty`,
		},
		{knob(`"name": "a", "range": {"from": 1, "to": 1048577}`), `the range has more than 1048576 values`},
		{
			knob(`"name": "a", "range": {"from": -9223372036854775808, "to": 9223372036854775807}`),
			`the range has more than 1048576 values`,
		},
		{constraint(`A > 3`), `x.json:4: constraints[1]: "A > 3": knob "A" is not known; did you mean "a"?`},
		{constraint(`b == 1`), `x.json:4: constraints[1]: "b == 1": knob b is not a number in all its values`},
		{constraint(`f == 1`), `knob f is not a number in all its values`},
	} {
		checkBad(t, c.text, c.want)
	}
}

// knobs returns so many knobs as a list in JSON without its brackets.
func knobs(n int) string {
	var all []string
	for k := range n {
		all = append(all, fmt.Sprintf(`{"name": "k%d", "define": [1]}`, k))
	}
	return strings.Join(all, ",")
}

func TestBadArgs(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`"dtype": "int7x"`, `x.json:2: args[0]: `},
		{`"dtype": "int8", "shape": [-1]`, `x.json:2: args[0]: `},
		{`"dtype": "int8", "data": {"file": "a.npy"}, "seed": 1`, `x.json:2: args[0]: it has more than one of data, seed and value`},
		{`"dtype": "int8", "value": 128`, `x.json:2: args[0]: value 128 is no int8`},
		{`"dtype": "int8", "value": 1, "shape": [1]`, `x.json:2: args[0]: it has more than one of data, seed and value, or a value that is not of shape []`},
		{`"dtype": "bfloat16", "value": 1`, `x.json:2: args[0]: value 1 is no bfloat16`},
		{`"dtype": "int8", "rel_tol": 1`, `args[0].rel_tol: it is only for want`},
		{`"dtype": "int8", "abs_tol": -1`, `args[0].abs_tol: -1 is not between 0 and 1e300`},
		{`"dtype": "int8", "want": {"file": "a.bin"}`, `args[0].want.file: "a.bin" is none of .npy, .npz`},
		{`"dtype": "int8", "data": {"file": "a.npy"}`, `args[0]: data: testdata/a.npy: `},
		{
			`"dtype": "int8", "shape": [3], "want": {"file": "zeros.npz", "array": "a"}`,
			`args[0]: want: testdata/zeros.npz a is int8 [4], not int8 [3]`,
		},
		{
			`"dtype": "int8", "shape": [4], "data": {"file": "zeros.npz", "array": "b"}`,
			`args[0]: data: testdata/zeros.npz has no array "b"`,
		},
		{
			`"dtype": "int8", "shape": [536870912], "seed": 1}, {"dtype": "int8", "shape": [2097152], "seed": 1`,
			`x.json:2: args[1]: the arguments are larger than 513 MiB`,
		},
	} {
		checkBad(t, `{"kernel": ["matmul.c"], "entry": "f", "knobs": [{"name": "a", "define": [1]}], "args": [`+"\n{"+
			c.text+"}]}", c.want)
	}
}

func TestLargeArgumentIsRejected(t *testing.T) {
	dir := t.TempDir()
	file := dir + "/a.npy"
	writeFile(t, file, "")
	must(t, os.Truncate(file, maxDataBytes+1))
	checkBad(t, fmt.Sprintf(`{"kernel": ["matmul.c"], "entry": "f", "knobs": [{"name": "a", "define": [1]}],
"args": [{"dtype": "int8", "data": {"file": %q}}]}`, filepath.ToSlash(file)), "a.npy: ")
}

func checkBad(t *testing.T, text, want string) {
	t.Helper()
	_, err := parseFile([]byte(text), "testdata/x.json")
	wantError(t, err, failure.Config, want)
	if !errors.As(err, new(*jsonfile.Error)) {
		t.Errorf("%.200s: %v", text, err)
	}
}

func TestRead(t *testing.T) {
	_, err := Read("testdata/missing.json")
	wantError(t, err, failure.Config)
	big := t.TempDir() + "/big.json"
	writeFile(t, big, string(make([]byte, maxFileBytes+1)))
	_, err = Read(big)
	wantError(t, err, "", "is larger than 1 MiB")
	s := spaces(t)["matmul"]
	source := testkit.ReadFile(t, "testdata/matmul.c")
	kernel := []mlf.File{{Name: "matmul.c", Data: source}}
	if !reflect.DeepEqual(s.Kernel, kernel) || s.Entry != "matmul" || len(s.Args) != 3 {
		t.Errorf("kernel %d files, entry %s, %d arguments", len(s.Kernel), s.Entry, len(s.Args))
	}
	if a := s.Args[1]; a.DType.String() != "int8" || !slices.Equal(a.Shape, []int64{64, 64}) || len(a.Data) != 64*64 ||
		a.Data[0] == a.Data[1] && a.Data[1] == a.Data[2] {
		t.Errorf("argument %+v", a)
	}
	if a := s.Args[2]; a.Data != nil || a.Want != nil {
		t.Errorf("argument %+v", a)
	}
}

// TestDocumentedFormat compares docs/tuning.md with the example that it shows and with the fields that are read.
func TestDocumentedFormat(t *testing.T) {
	page := testkit.ReadFile(t, "../../docs/tuning.md")
	const example = "../../examples/tune-matmul/kernel/matmul.json"
	file := testkit.ReadFile(t, example)
	testkit.WantText(t, string(page), "```json\n"+string(file)+"```")
	source := testkit.ReadFile(t, "parse.go")
	for _, field := range regexp.MustCompile(`json:"(\w+)`).FindAllStringSubmatch(string(source), -1) {
		testkit.WantText(t, string(page), "`"+field[1]+"`")
	}
}

// FuzzParse checks what every accepted file must keep: proposals satisfy the constraints and survive JSON, no two are
// equal, and an error names a line of the file.
func FuzzParse(f *testing.F) {
	matmul := testkit.ReadFile(f, "testdata/matmul.json")
	f.Add(matmul)
	f.Add([]byte(`{"kernel": ["matmul.c"], "entry": "f", "knobs": [{"name": "a", "define": ["4", 5, "05", ""]}]}`))
	f.Add([]byte(`{"kernel": ["matmul.c"], "entry": "f", "knobs": [` + million3 +
		`], "constraints": ["a % b == c", "!(a < b)"]}`))
	f.Add([]byte(`{"kernel": ["matmul.c"], "entry": "f", "knobs": [{"name": "a", "range": {"from": -9223372036854775808, "to": 9223372036854775807, "step": 9223372036854775807}}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := parseFile(data, "testdata/fuzz.json")
		if err != nil {
			var fe *jsonfile.Error
			if !errors.As(err, &fe) || fe.Line > 1+strings.Count(string(data), "\n") {
				t.Errorf("%v", err)
			}
			return
		}
		seen := map[string]bool{}
		index := make([]int, len(s.knobs))
		rng := rand.New(rand.NewPCG(1, 1))
		for range 20 {
			for k := range index {
				index[k] = rng.IntN(s.knobs[k].count)
			}
			if s.violated(index) >= 0 {
				continue
			}
			c := s.config(index)
			if id := c.ID(); seen[c.index] != seen[id] {
				t.Fatalf("%v has the ID of another configuration", c)
			}
			seen[c.index], seen[c.ID()] = true, true
		}
	})
}
