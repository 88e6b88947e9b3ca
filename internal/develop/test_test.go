package develop

import (
	"testing"
)

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
