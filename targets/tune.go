// This file holds the targets about tuning.

package targets

import (
	"context"

	"github.com/boardsmith/boardsmith/internal/cli/console"
	"github.com/boardsmith/boardsmith/internal/cli/tuning"
)

// Tune finds the fastest of the operators in CANDIDATES, of the configurations of SPACE, or of the flags for MODEL, on
// the boards of BOARD: docs/tuning.md. OUTPUT is the run's folder, TRIALS and PROPOSER choose configurations, EXPECT
// has the right outputs, CONFIRM measures the fastest again in flash.
func Tune(ctx context.Context) error {
	return doJob(ctx, "tune", func(ctx context.Context, j *job) error { return j.tuning().Tune(ctx) })
}

// Reproduce measures the candidate ID of the tuning run RUN once more.
func Reproduce(ctx context.Context) error {
	return doJob(ctx, "reproduce", func(ctx context.Context, j *job) error { return j.tuning().Reproduce(ctx) })
}

// Serve offers the boards of BOARD to TVM's tuners over the network, until Ctrl-C: docs/tvm.md. TRACKER is TVM's
// tracker, KEY the boards' names there; LISTEN and ALLOW are addresses of this computer and networks of clients.
func Serve(ctx context.Context) error {
	return doJob(ctx, "serve", func(ctx context.Context, j *job) error { return j.tuning().Serve(ctx) })
}

func (j *job) tuning() *tuning.Job {
	return &tuning.Job{Console: j.Console, In: j.in, Desk: j.desk(), Builder: j.builder()}
}

// Report writes the tuning runs in RUN as an HTML page to OUTPUT, and as a table to CSV.
func Report(ctx context.Context) error {
	return do(ctx, "report", func(_ context.Context, c *console.Console) error { return tuning.Report(c) })
}
