package tuning

import (
	"io"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/boardsmithjson"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/rpc"
	"github.com/boardsmith/boardsmith/targets/internal/console"
	"github.com/boardsmith/boardsmith/targets/internal/inputs"
	"github.com/boardsmith/boardsmith/tune"
)

// TestAllFailedConfirmationsAreAnError: confirmations that all failed on a kind of board are an error of the first
// one's class; one that succeeded, or failures of the candidates themselves, are not.
func TestAllFailedConfirmationsAreAnError(t *testing.T) {
	timed := func(id, of, kind string) tune.Result {
		return tune.Result{ID: id, Confirms: of, Kind: kind, Time: &rpc.Stats{N: 3, Median: 1}}
	}
	failed := func(id, of, kind string) tune.Result {
		return tune.Result{
			ID: id, Confirms: of, Kind: kind, Failure: &tune.Failure{Class: failure.Boot, Message: "no answer"},
		}
	}
	for _, c := range []struct {
		name    string
		results []tune.Result
		want    string
	}{
		{"nothing was confirmed", []tune.Result{timed("a", "", "x"), failed("b", "", "x")}, ""},
		{"one of two", []tune.Result{timed("a@flash", "a", "x"), failed("b@flash", "b", "x")}, ""},
		{
			"none",
			[]tune.Result{timed("a", "", "x"), failed("a@flash", "a", "x"), failed("b@flash", "b", "x")},
			"2 of 2 candidates failed in flash on board x; the first, a@flash: no answer",
		},
		{
			"none on one of two kinds",
			[]tune.Result{timed("a@flash", "a", "x"), failed("b@flash", "b", "y")},
			"1 of 1 candidates failed in flash on board y; the first, b@flash: no answer",
		},
	} {
		t.Log(c.name)
		testkit.WantErrorIf(t, c.want != "", noneConfirmed(c.results), failure.Boot, c.want)
	}
}

// TestServedBoards: the time of sessions that name none is TIMEOUT's, a server's own without one, and never that of
// a call in boardsmith.json; as root, a process of this computer is served with FORCE only.
func TestServedBoards(t *testing.T) {
	for _, want := range []time.Duration{0, 5 * time.Minute} {
		c := console.New(testkit.Environment("BOARD=mps2_an386,host", "FORCE=1"), io.Discard, io.Discard)
		source := inputs.Source{
			Dir: t.TempDir(), Load: func(*inputs.Inputs, *boardsmithjson.Choice) (bool, error) { return false, nil },
		}
		testkit.Must(t, c.Read(&source.Variables))
		in, err := inputs.Resolve(source)
		testkit.Must(t, err)
		in.Timeout = time.Minute
		job := &Job{Console: c, In: in}
		all, err := job.servedBoards(ServeInputs{Listen: "127.0.0.1:0", OfCall: inputs.OfCall{Timeout: want}})
		if err != nil || len(all) != 2 || all[1].options.SessionTimeout != want || all[0].isProcess || !all[1].isProcess {
			t.Errorf("%v: %+v, %v", want, all, err)
		}
		job.In.Force = false
		for word, refused := range map[string]bool{"host": true, "host=second": true, "mps2_an386": false} {
			_, err := job.isProcess(word, true)
			testkit.WantErrorIf(t, refused, err, failure.Config)
		}
	}
}

func init() { console.Declare("", inputs.Variables{}) }
