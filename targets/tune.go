// This file holds the targets about tuning.

package targets

import (
	"context"

	"github.com/boardsmith/boardsmith/internal/cli/tuning"
)

func (v *invocation) tune(ctx context.Context) error {
	job, err := v.tuningJob(ctx)
	if err != nil {
		return err
	}
	return job.Tune(ctx)
}

func (v *invocation) reproduce(ctx context.Context) error {
	job, err := v.tuningJob(ctx)
	if err != nil {
		return err
	}
	return job.Reproduce(ctx)
}

func (v *invocation) report(context.Context) error { return tuning.Report(v.Console) }

func (v *invocation) tuningJob(ctx context.Context) (*tuning.Job, error) {
	in, err := v.inputs(ctx)
	if err != nil {
		return nil, err
	}
	return &tuning.Job{Console: v.Console, In: in, Desk: v.desk(in), Builder: v.builder(in)}, nil
}
