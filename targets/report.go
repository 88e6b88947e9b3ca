// This file writes pages about tuning runs, measurements and projects.

package targets

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/format"
	"github.com/boardsmith/boardsmith/internal/nextstep"
	"github.com/boardsmith/boardsmith/measure"
	"github.com/boardsmith/boardsmith/targets/internal/console"
	"github.com/boardsmith/boardsmith/targets/internal/inputs"
	"github.com/boardsmith/boardsmith/targets/internal/jsonlines"
	"github.com/boardsmith/boardsmith/targets/internal/tuning"
	"github.com/boardsmith/boardsmith/tune/report"
)

// Report writes runs, measurements or a firmware's sizes as an HTML page to OUTPUT. They are the tuning runs in RUN,
// the measurements in BASELINE, or else the project's firmware; CSV is a table: docs/measure.md. Of a project, it
// builds the firmware and shows its size by part and memory, beside that in BASELINE, the deepest calls, and the wear
// of the board's devices.
//
// Variables:
//
//	BOARD        a board's name: mage boards lists them [host]
//	MODEL        a model's archive, .tar or .tar.gz, or its description, .json … [the bundled sample, digits_i8]
//	MODEL_NAME   the name of the model in an archive that holds several [the archive's only one]
//	APP          standalone: firmware that runs the model without an RPC server … [with BASELINE: standalone]
//	OPTIONS      name=value, separated by spaces: mage board:show NAME lists them [the board's own]
//	PLACE        PART=REGION, separated by commas: the memory of parts of the firmware [the board's own]
//	LIBRARIES    names, folders or git places of libraries, separated by commas [those of the project]
//	TEMPLATE     a template's name, path or git place [the board's own]
//	FIXED_INPUT  with APP=standalone: .npz with the inputs that are compiled in [those of the project]
//	PROJECT      the project's folder [build/<board>/<archive name>]
//	TARGET       a named target of boardsmith.json
//	DEVICE       which device of that board: its name in desk.json or its probe's serial [the only attached one]
//	OUTPUT       the page [report.html]
//	DRYRUN=1     prints what would be done, without doing it
//	BASELINE     measurements to show, or with BOARD, MODEL or PROJECT to show beside that project
//	RUN          folders of tuning runs, separated by commas
//	CSV          file for a table of all results [not written]
func Report(ctx context.Context) error { return doReport(ctx) }

var doReport = sharedTarget("report", writeReports)

// reportInputs are the variables of report.
type reportInputs struct {
	tuning.ReportInputs
	inputs.OfBuild
	Baseline string `var:"BASELINE"`
}

func writeReports(ctx context.Context, j *job, v reportInputs) error {
	c := j.Console
	ofProject := cmp.Or(v.Board, v.Model, v.Project, v.Target) != ""
	switch {
	case v.Run != "" && v.Baseline != "":
		return failure.New(failure.Config, "write one page after the other",
			"RUN=%s and BASELINE=%s are of two pages", v.Run, v.Baseline)
	case v.Run != "":
		builder, err := searchBuilder(ctx, c)
		if err != nil {
			return err
		}
		desk := &device.Desk{Host: builder.Host}
		wear := wearOf(c, desk, func(device.DeviceWear) bool { return true })
		return tuning.Report(c, v.ReportInputs, wear)
	case v.Baseline != "" && !ofProject:
		return reportBaseline(c, v)
	case strings.Contains(v.Board, ","):
		return failure.New(failure.Config, "RUN=FOLDER names a tuning run; "+
			nextstep.Target("measure")+" measures on several",
			"BOARD=%s: a report is of one board", v.Board)
	}
	return reportProject(ctx, j, v)
}

// reportBaseline writes the measurements in BASELINE.
func reportBaseline(c *console.Console, v reportInputs) error {
	b, err := measure.ReadBaseline(v.Baseline)
	if err != nil {
		return fmt.Errorf("BASELINE: %w", err)
	}
	p := tuning.Pages{Console: c, ReportInputs: v.ReportInputs}
	p.Describe = "of " + format.Count(len(b.Results), "measurement")
	return writeMeasurements(p, report.Measurements{Table: measure.Table{Results: b.Results}})
}

func writeMeasurements(p tuning.Pages, x report.Measurements) error {
	p.Line = jsonlines.Report{Candidates: len(x.Results)}
	return p.Write(x.WriteHTML, x.WriteCSV)
}

// reportProject builds the project of the inputs, and writes its size and the wear of its board's devices.
func reportProject(ctx context.Context, j *job, v reportInputs) (err error) {
	c, app := j.Console, ""
	if v.Baseline != "" {
		app = boards.Standalone // as measure has it
	}
	var shared inputs.Variables
	if err := c.Read(&shared); err != nil {
		return err
	}
	if err := j.open(ctx, app, shared); err != nil {
		return err
	}
	if j.in.Library {
		return noFirmware()
	}
	x := report.Measurements{Title: inputs.ArchiveName(j.in.Model) + " on " + j.in.BoardName()}
	if name := v.Baseline; name != "" {
		if x.Baseline, err = measure.ReadBaseline(name); err != nil {
			return fmt.Errorf("BASELINE: %w", err)
		}
	}
	p := tuning.Pages{Console: c, ReportInputs: v.ReportInputs, Describe: "of " + x.Title}
	if c.DryRun {
		return writeMeasurements(p, x)
	}
	image, err := j.built(ctx)
	if err != nil {
		return err
	}
	r, err := measure.Build(ctx, j.project, image)
	if err != nil {
		return err
	}
	x.Results = append(x.Results, r)
	if x.Baseline != nil && x.Baseline.Find(r) == nil {
		c.Notef("note: %s is not in %s", r.Key(), v.Baseline)
	}
	x.Wear = wearOf(c, j.desk(), func(w device.DeviceWear) bool {
		return w.Board == j.in.BoardName() && (j.in.Device == "" || namesDevice(j, w))
	})
	return writeMeasurements(p, x)
}

// wearOf returns devices of the ledger. A ledger that cannot be read is noted.
func wearOf(c *console.Console, desk *device.Desk, shown func(device.DeviceWear) bool) []device.DeviceWear {
	all, err := desk.Wear()
	if err != nil {
		c.Notef("note: the page is without the wear of devices: %v", err)
	}
	return slices.DeleteFunc(all, func(w device.DeviceWear) bool { return !shown(w) })
}
