package develop

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A plain run tries each package once: those of raced, and the others, of which the longest are first.
func TestPlainPackages(t *testing.T) {
	r := inFolder(filepath.Join("..", ".."))
	plain, err := r.plainPackages(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if plain[0] != longest[0] || !slices.Contains(plain, "./mlf") {
		t.Errorf("packages %q", plain)
	}
	tested := map[string]bool{}
	for _, p := range slices.Concat(plain, raced, longest) {
		files, err := filepath.Glob(filepath.Join(r.Dir, p, "*_test.go"))
		tested[p] = err == nil && len(files) > 0
	}
	for _, p := range raced {
		if slices.Contains(plain, p) || !tested[p] {
			t.Errorf("%s is in both lists, or has no tests", p)
		}
	}
	for _, p := range longest {
		if !tested[p] {
			t.Errorf("%s has no tests", p)
		}
	}
}

func TestSeedOfTests(t *testing.T) {
	r, _ := quietRepository()
	seed := func(given string) (string, error) {
		r.Env = func(name string) string {
			if name == "SEED" {
				return given
			}
			return ""
		}
		return r.testSeed()
	}
	for given, want := range map[string]string{"": "1", "77": "77"} {
		if got, err := seed(given); got != want || err != nil {
			t.Errorf("SEED=%s draws by %s, %v; want %s", given, got, err, want)
		}
	}
	if _, err := seed("seven"); err == nil {
		t.Error("a seed that is no number")
	}
	one, err := seed("random")
	if err != nil {
		t.Fatal(err)
	}
	for range 3 { // two equal random numbers of 32 bits may occur, four mean an error
		if other, err := seed("random"); err != nil || other != one {
			return
		}
	}
	t.Errorf("SEED=random drew %s four times", one)
}

func TestGoTestTitle(t *testing.T) {
	many := strings.Fields(strings.Repeat("./p ", 60))
	if got := goTestTitle(many); len(got) > 60 || !strings.HasSuffix(got, "./p …") {
		t.Errorf("%q", got)
	}
	if got := goTestTitle([]string{"-count=1", "./..."}); got != "go test -count=1 ./..." {
		t.Errorf("%q", got)
	}
}
