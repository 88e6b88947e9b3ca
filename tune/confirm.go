package tune

import (
	"cmp"
	"context"
	"time"
)

// Confirm measures the best candidates of each kind of board again, from flash, where code can take another time than
// from RAM. It selects from the candidates with which Measure was called, and puts all into one firmware on one board.
// The results have the candidate's ID with "@flash", and the ID in Confirms; Correlation compares them with those from
// RAM. Finished results are returned as they are. Of candidates that share a time it measures one. It omits candidates
// that were measured in flash already. Errors are as in Measure.
func (r *Run) Confirm(ctx context.Context, best int) ([]Result, error) {
	var all []Result
	for _, name := range r.Kinds() {
		results, err := r.confirmKind(ctx, r.schedulers[name], best)
		if err != nil {
			return all, err
		}
		all = append(all, results...)
	}
	return all, nil
}

func (r *Run) confirmKind(ctx context.Context, s *scheduler, best int) ([]Result, error) {
	s.confirming.Lock()
	defer s.confirming.Unlock()
	fastest, err := r.fastestInRAM(s, best)
	if err != nil {
		return nil, err
	}

	var finished []Result
	var jobs []*job
	for _, result := range fastest {
		c, err := readCandidate(r.dir, result)
		if err != nil {
			return nil, err
		}

		// In flash it is another content, with a result of its own.
		c.ID, c.content = c.ID+flashSuffix, result.Content+flashSuffix

		if s.isFinished(c.content) {
			confirmed, err := s.share(c, Result{Confirms: result.ID}, c.content)
			if err != nil {
				return nil, err
			}
			finished = append(finished, confirmed)
			continue
		}

		j := newJob(ctx, c)
		j.queued, j.reason, j.confirms = time.Now(), "it is confirmed", result.ID
		jobs = append(jobs, j)
	}

	results, err := s.confirmJobs(ctx, jobs)
	return append(finished, results...), err
}

// fastestInRAM returns the results of the best candidates of a kind that were measured in RAM, one for each time.
func (r *Run) fastestInRAM(s *scheduler, best int) (fastest []Result, err error) {
	all, err := r.Results()
	if err != nil {
		return nil, err
	}

	measured := map[string]bool{} // by ID
	for _, ranking := range Rank(all) {
		for _, result := range ranking.Results {
			// A result that shares a time has the ID of the measured candidate in SameAs.
			id := cmp.Or(result.SameAs, result.ID)
			content, _ := r.current.Load(result.label())
			if result.Kind != s.kind || result.Tier != RAM || measured[id] || content != result.Content {
				continue
			}

			if len(fastest) == best {
				return fastest, nil
			}
			measured[id] = true
			fastest = append(fastest, result)
		}
	}
	return fastest, nil
}
