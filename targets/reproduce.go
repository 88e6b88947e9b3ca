// This file measures a candidate of an earlier tuning run again.

package targets

import (
	"context"
	"fmt"
	"time"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/tune"
)

// reproduce measures the candidate ID of the run RUN once more, and prints its result of then and of now.
func (v *invocation) reproduce(ctx context.Context) (err error) {
	in, err := v.inputs()
	if err != nil {
		return err
	}
	dir, id := v.Env("RUN"), v.Env("ID")
	if dir == "" || id == "" {
		return failure.New(failure.Config, "RUN=FOLDER ID=CANDIDATE names both", "no candidate of a tuning run is named")
	}
	if v.Env.On("DRYRUN") {
		return v.Would("measure %s of %s again", id, dir)
	}
	if err := notOfNetwork(dir, id); err != nil {
		return err
	}
	desk := v.desk(in)
	defer func() { err = firstError(err, desk.Close()) }()
	bar := v.Start("reproduce", 0)
	defer bar.End()
	was, is, err := tune.Reproduce(ctx, dir, id, desk, in.named, tune.Options{
		Builder: v.builder(in), CallTimeout: in.timeout,
	})
	if err != nil {
		return err
	}
	bar.End()
	v.Printf("then: %s", outcome(was))
	v.Printf("now:  %s", outcome(is))
	v.JSONLine(fields{"status": "done", "id": id, "then": was, "now": is})
	return nil
}

// outcome is a result's time or failure as text.
func outcome(r tune.Result) string {
	if r.Failure != nil {
		return string(r.Failure.Class) + ": " + r.Failure.Message
	}
	return fmt.Sprintf("%v, median of %d samples, %s", time.Duration(r.Time.Median*float64(time.Second)), r.Time.N, r.Tier)
}
