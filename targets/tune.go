// This file holds the targets about tuning.

package targets

import (
	"context"

	"github.com/boardsmith/boardsmith/targets/internal/tuning"
)

// Tune finds the fastest candidate for an operator on boards. Candidates are the operators in CANDIDATES, the
// configurations of SPACE, or flags for MODEL, on the boards of BOARD: docs/tuning.md. OUTPUT is the run's folder,
// TRIALS and PROPOSER choose configurations, EXPECT has the right outputs, CONFIRM measures the fastest again in flash.
//
// Variables:
//
//	BOARD        a board's name: mage boards lists them [host]
//	MODEL        a model's archive, .tar or .tar.gz, or its description, .json … [the bundled sample, digits_i8]
//	MODEL_NAME   the name of the model in an archive that holds several [the archive's only one]
//	APP          standalone: firmware that runs the model without an RPC server: embedded.md [rpc]
//	OPTIONS      name=value, separated by spaces: mage board:show NAME lists them [the board's own]
//	PLACE        PART=REGION, separated by commas: the memory of parts of the firmware [the board's own]
//	LIBRARIES    names, folders or git places of libraries, separated by commas [those of the project]
//	TEMPLATE     a template's name, path or git place [the board's own]
//	PROJECT      the project's folder [build/<board>/<archive name>]
//	TARGET       a named target of boardsmith.json
//	DEVICE       which device of that board: its name in desk.json or its probe's serial [the only attached one]
//	PROGRAMMER   the programmer: openocd, pyocd, west [the board's own]
//	WAIT         how long to wait for a board that another process uses: 60 (seconds), 2m [no waiting]
//	INPUT        .npz with an array for each input, by name [else random numbers from SEED]
//	OUTPUT       the run's folder [build/tune/…]
//	REPEAT       number of time samples [10]
//	SEED         seed of random inputs: floats from -1 to 1, and integers; also of its proposer with SPACE [0]
//	TIMEOUT      limit for one call on the device: 60 (seconds), 2m30s [60 s]
//	FORCE=1      uses and flashes the board also if another one is named
//	DRYRUN=1     prints what would be done, without doing it
//	EXPECT       .npz with the outputs that are expected [not compared]
//	SPACE        a file of a kernel with knobs: tuning.md
//	CANDIDATES   a folder of archives of one operator each: tuning.md
//	PROPOSER     with SPACE: grid, random or evolve [evolve]
//	TRIALS       with SPACE or MODEL: how many configurations are measured at most [100]
//	CONFIRM      with CANDIDATES: how many of the fastest candidates are measured again in flash [0]
//	RETRY=1      measures candidates again whose failure an earlier run in the folder has kept
//	TRACKER      HOST:PORT of TVM's tracker, where serve offers boards: tvm.md [the boards of this computer]
//	KEY          without BOARD, keys are names of boards [with TRACKER the boards' names, else …]
//	PRIORITY     with TRACKER: a number [1]
func Tune(ctx context.Context) error { return doTune(ctx) }

var doTune = tuningTarget("tune", (*tuning.Job).Tune)

// Reproduce measures the candidate ID of the tuning run RUN once more.
//
// Variables:
//
//	BOARD        a board's name: mage boards lists them [host]
//	TARGET       a named target of boardsmith.json
//	DEVICE       which device of that board: its name in desk.json or its probe's serial [the only attached one]
//	PROGRAMMER   the programmer: openocd, pyocd, west [the board's own]
//	WAIT         how long to wait for a board that another process uses: 60 (seconds), 2m [no waiting]
//	TIMEOUT      limit for one call on the device: 60 (seconds), 2m30s [that of the run]
//	FORCE=1      uses and flashes the board also if another one is named
//	DRYRUN=1     prints what would be done, without doing it
//	RUN          the folder of one
//	ID           the candidate to measure again
func Reproduce(ctx context.Context) error { return doReproduce(ctx) }

var doReproduce = tuningTarget("reproduce", (*tuning.Job).Reproduce)

// Serve offers the boards of BOARD to TVM's tuners over the network. It runs until Ctrl-C: docs/tvm.md. TRACKER is
// TVM's tracker, KEY the boards' names there; LISTEN and ALLOW are addresses of this computer and networks of clients.
//
// Variables:
//
//	BOARD        a board's name: mage boards lists them [host]
//	OPTIONS      name=value, separated by spaces: mage board:show NAME lists them [the board's own]
//	PLACE        PART=REGION, separated by commas: the memory of parts of the firmware [the board's own]
//	LIBRARIES    names, folders or git places of libraries, separated by commas [those of the project]
//	TEMPLATE     a template's name, path or git place [the board's own]
//	TARGET       a named target of boardsmith.json
//	DEVICE       which device of that board: its name in desk.json or its probe's serial [the only attached one]
//	PROGRAMMER   the programmer: openocd, pyocd, west [the board's own]
//	WAIT         how long to wait for a board that another process uses: 60 (seconds), 2m [no waiting]
//	OUTPUT       the folder of the boards' firmware [build/serve]
//	TIMEOUT      limit for the session of a client that names none [an hour]
//	FORCE=1      uses and flashes the board also if another one is named; serves host as root
//	DRYRUN=1     prints what would be done, without doing it
//	TRACKER      HOST:PORT of TVM's tracker, where serve offers boards: tvm.md
//	KEY          the boards' keys, separated by commas, in the order … [with TRACKER the boards' names, else …]
//	LISTEN       address and port of the first board [127.0.0.1:0]
//	ALLOW        networks and addresses of clients, separated by commas [all]
func Serve(ctx context.Context) error { return doServe(ctx) }

var doServe = tuningTarget("serve", (*tuning.Job).Serve)

// tuningTarget is jobTarget with a job of package tuning.
func tuningTarget[V any](
	step string, f func(*tuning.Job, context.Context, V) error,
) func(context.Context) error {
	return jobTarget(step, "", func(ctx context.Context, j *job, v V) error {
		return f(&tuning.Job{Console: j.Console, In: j.in, Desk: j.desk(), Builder: j.builder()}, ctx, v)
	})
}
