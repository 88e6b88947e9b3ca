// This file implements the methods of the Project API with packages project and device.

package projectapi

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"math/bits"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"

	"github.com/hashicorp/go-hclog"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/framing"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/project"
	"github.com/boardsmith/boardsmith/transport"
)

// templateFile configures a template folder for TVM. Without it, the board is host.
const templateFile = "microtvm_template.json"

// templateConfig is the content of templateFile.
type templateConfig struct {
	Board    string `json:"board"`              // the board of projects that name none
	Template string `json:"template,omitempty"` // "": the board's first
}

// A Folder is a template folder or a generated project, and the device that firmware runs on.
type Folder struct {
	Dir     string           // absolute
	Builder *project.Builder // also of files below Dir: boards/ and templates/ of a template folder
	Desk    *device.Desk
	Log     hclog.Logger // nil: no log; its level becomes debug for a call with verbose
	// path of the executable that generate_project puts into projects, so that they are complete; "": none
	Executable string
	// names of programs that are put there with it, from its folder, as far as they are there
	Companions []string
}

// A folder implements methods.
type folder struct {
	Folder

	opened bool           // it was a generated project
	device *device.Device // from flash or open_transport to close_transport
	link   transport.Link // from open_transport to close_transport
	buffer []byte         // of Read
	quiet  hclog.Level    // of Log without verbose; NoLevel: not known yet
	frames framing.Unframer
	unsent []byte // the beginning of a frame, from Write
}

// isTemplate reports whether the folder is no generated project, and was none before.
func (f *folder) isTemplate() bool { return !f.opened && !project.Exists(f.Dir) }

// config reads the file of a template folder.
func (f *folder) config() (c templateConfig, err error) {
	path := filepath.Join(f.Dir, templateFile)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return templateConfig{Board: "host"}, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &c)
	}
	if err != nil {
		return c, failure.Errorf(failure.Config, "%s: %w", path, err)
	}
	return c, nil
}

// supported are the versions of TVM that have this protocol and our archives: 0.9 to 0.18.
var supported = regexp.MustCompile(`^0\.(\d+)(\.|$)`)

// Info describes the folder.
func (f *folder) Info(tvm string) (info, error) {
	if m := supported.FindStringSubmatch(tvm); m == nil {
		return info{}, failure.Errorf(failure.Config, "%w: TVM %q is none of 0.9 to 0.18", errVersion, tvm)
	} else if minor, err := strconv.Atoi(m[1]); err != nil || minor < 9 || minor > 18 {
		return info{}, failure.Errorf(failure.Config, "%w: TVM %q is none of 0.9 to 0.18", errVersion, tvm)
	}

	if f.isTemplate() {
		c, err := f.config()
		if err != nil {
			return info{}, err
		}
		b, err := boards.Find(c.Board, f.Builder.Path)
		if err != nil {
			return info{}, err
		}
		var names []string
		if !b.Partial { // of the boards of a family there is no list
			names = boards.List(f.Builder.Path)
		}
		return info{Platform: b.Name, Template: true, Options: optionsOf(b, names)}, nil
	}

	p, err := f.project()
	if err != nil {
		return info{}, err
	}
	defer p.Close()

	b := p.Board()
	options := optionsOf(b, []string{b.Name})
	return info{Platform: b.Name, Archive: filepath.Join(f.Dir, "model.tar"), Options: options}, nil
}

// Generate makes a project of the folder's template.
func (f *folder) Generate(ctx context.Context, g generation, v values) (err error) {
	if err := f.prepare(v); err != nil {
		return err
	}
	if !f.isTemplate() {
		return failure.Errorf(failure.Config, "%s is a generated project, not a template", f.Dir)
	}

	c, err := f.config()
	if err != nil {
		return err
	}
	s, err := specOf(v, c.Board)
	if err != nil {
		return err
	}

	s.Model, s.Template = g.Archive, c.Template
	if err := f.holdGraph(&s); err != nil {
		return err
	}

	// Only who makes the folder may remove it: another server may be told to make the same one.
	if err := os.MkdirAll(filepath.Dir(g.Dir), 0o755); err != nil {
		return err
	}
	if err := os.Mkdir(g.Dir, 0o755); errors.Is(err, fs.ErrExist) {
		return failure.New(failure.Config, "name another folder, or remove this one", "%s exists already", g.Dir)
	} else if err != nil {
		return err
	}

	f.step("generate", "folder", g.Dir, "board", s.Board)
	p, err := f.Builder.Generate(ctx, g.Dir, s)
	if err == nil {
		err = errors.Join(f.install(g.Dir), p.Close())
	}
	if err != nil {
		_ = os.RemoveAll(g.Dir)
	}
	return err
}

// graphCall is more than a call of tvm.graph_executor.create has besides the graph's JSON, in bytes.
const graphCall = 128

// holdGraph chooses a packet buffer that holds the call with the model's graph, if the firmware can run graphs and the
// user has not chosen: TVM's host sends the graph as one message. A power of two lets models share a compiled runtime.
func (f *folder) holdGraph(s *project.Spec) error {
	b, err := boards.Find(s.Board, f.Builder.Path)
	if err != nil {
		return err
	}
	o, err := b.Settle(s.Options)
	if err != nil || !o.GraphOnDevice() || s.Options.PacketBytes != 0 {
		return nil // Generate reports the error
	}

	// The archive is opened once: Generate gets it in place of its path.
	if s.Archive, err = mlf.Open(s.Model); err != nil {
		return err
	}
	s.Model = ""
	m, err := s.Archive.Model(s.ModelName)
	if err != nil {
		return err
	}

	packet := 1 << bits.Len(uint(len(m.Graph)+graphCall-1))
	allowed := func(c boards.Option) bool { return c.Name == optPacket && packet <= c.Max }
	if packet > o.PacketBytes && slices.ContainsFunc(b.Options(), allowed) {
		s.Options.PacketBytes = packet
	}
	return nil
}

// install puts the executable into a project, and what goes with it: as second names of the files, or copies on another
// file system.
func (f *folder) install(dir string) error {
	if f.Executable == "" {
		return nil
	}
	err := linkOrCopy(f.Executable, filepath.Join(dir, Program))
	for _, name := range f.Companions {
		from := filepath.Join(filepath.Dir(f.Executable), name)
		if _, none := os.Stat(from); none == nil {
			err = errors.Join(err, linkOrCopy(from, filepath.Join(dir, name)))
		}
	}
	return err
}

func linkOrCopy(from, to string) error {
	if os.Link(from, to) == nil {
		return nil
	}
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o755)
}

// Program is the name of the server's executable, in folders and on PATH.
const Program = "microtvm-api-server"

// project opens the folder, which is a generated project.
func (f *folder) project() (*project.Project, error) {
	if f.isTemplate() {
		return nil, failure.New(failure.Config, "call generate_project first", "%s is a template", f.Dir)
	}
	// From now on a missing project.json is an error, and the folder no template.
	f.opened = true
	if !project.Exists(f.Dir) {
		return nil, failure.New(failure.Config, "generate the project again",
			"the project %s was removed, or its project.json", f.Dir)
	}
	return f.Builder.Open(f.Dir)
}

// Build builds the project's firmware.
func (f *folder) Build(ctx context.Context, v values) error {
	if err := f.prepare(v); err != nil {
		return err
	}
	p, err := f.project()
	if err != nil {
		return err
	}
	_, err = p.Build(ctx)
	return errors.Join(err, p.Close())
}

// Flash writes the firmware to the device, as far as it does not hold it. A process or an emulator gets it when the
// transport is opened.
func (f *folder) Flash(ctx context.Context, v values) (err error) {
	if err := f.prepare(v); err != nil {
		return err
	}
	p, err := f.project()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()

	i, err := p.Build(ctx)
	if err != nil {
		return err
	}
	d, err := f.attach(ctx, p, v)
	if err != nil || !d.KeepsImage() {
		return err
	}

	f.step("flash", "image", i.Path)
	report, err := d.Flash(ctx, i)
	return errors.Join(err, p.RecordFlash(i, report, err), f.logWear(report))
}

// attach attaches the project's device, once.
func (f *folder) attach(ctx context.Context, p *project.Project, v values) (*device.Device, error) {
	if f.device != nil {
		return f.device, nil
	}
	serial, err := v.Text(optSerial)
	if err != nil {
		return nil, err
	}

	if f.Desk.Programmer, err = v.Text(optProgram); err != nil {
		return nil, err
	}
	if f.Desk.Reflash, err = v.Bool(optReflash); err != nil {
		return nil, err
	}

	f.device, err = f.Desk.Attach(ctx, p.Board(), serial)
	return f.device, err
}

// Open opens the transport, and starts a process or an emulator. An open transport stays as it is.
func (f *folder) Open(ctx context.Context, v values) (t timeouts, err error) {
	if ctx.Err() != nil {
		return t, failure.Stopped(ctx, "open the transport")
	}
	if err := f.prepare(v); err != nil {
		return t, err
	}
	p, err := f.project()
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()

	t = timeoutsOf(p.Board())
	if f.link != nil {
		return t, nil
	}

	i, err := p.Built()
	if err != nil {
		return t, err
	}
	if i == nil {
		return t, failure.New(failure.Config, "call build first", "%s has no firmware", f.Dir)
	}
	d, err := f.attach(ctx, p, v)
	if err != nil {
		return t, err
	}

	f.step("open", "image", i.Path)
	if f.link, err = d.Link(ctx, i); err != nil {
		return t, errors.Join(err, f.CloseTransport())
	}
	return t, nil
}

// timeoutsOf returns the limits of a session. A device that starts needs some seconds at most; a call may take its
// budget, after which the firmware answers by itself.
func timeoutsOf(b *boards.Board) timeouts {
	t := timeouts{StartRetry: 2, Start: 30}
	if b.BudgetMS != 0 {
		t.Established = float64(b.BudgetMS)/1000 + 10
	}
	return t
}

// CloseTransport ends the transport, and the process or the emulator.
func (f *folder) CloseTransport() (err error) {
	if f.link != nil {
		err = f.link.Close()
		f.link, f.frames, f.unsent = nil, framing.Unframer{}, nil
	}
	if f.device != nil {
		err = errors.Join(err, f.device.Close())
		f.device = nil
	}
	return err
}

// Close releases what the folder's methods have opened.
func (f *folder) Close() error {
	return f.CloseTransport()
}

// most is how much one read returns. A client that asks for less than what has arrived gets all of it, which saves it
// many calls: TVM's host asks for the parts of a message one by one, and accepts more (docs/formats/wire.md §5).
const most = 64 << 10

// longest is how much of a frame is kept until its end: a packet buffer has a mebibyte at most, whose bytes may be
// escaped.
const longest = 4 << 20

// Read returns what has arrived, in memory that the next Read overwrites.
func (f *folder) Read(ctx context.Context, _ int) ([]byte, error) {
	if f.link == nil {
		return nil, errClosed
	}
	if f.buffer == nil {
		f.buffer = make([]byte, most)
	}

	n, err := f.link.Read(ctx, f.buffer)
	if err != nil {
		return nil, ofLink(err)
	}
	return f.buffer[:n], nil
}

// Write sends whole frames, and what is outside of frames. TVM's host writes a frame in several parts and may pause
// between them for longer than a firmware waits for the rest of a message; that host repeats nothing. An error may be
// that of an earlier part.
func (f *folder) Write(ctx context.Context, data []byte) error {
	if f.link == nil {
		return errClosed
	}

	f.unsent = append(f.unsent, data...)
	for len(data) > 0 {
		n, _ := f.frames.Next(data)
		data = data[n:]
	}
	if !f.frames.Idle() && len(f.unsent) < longest {
		return nil
	}

	// Dropped also after an error, since the host repeats nothing.
	defer func() { f.unsent = f.unsent[:0] }()
	return ofLink(f.link.Write(ctx, f.unsent))
}

// ofLink gives errors of a link their class in the protocol.
func ofLink(err error) error {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return failure.Errorf(failure.Timeout, "%w: %w", errTimeout, err)
	case errors.Is(err, transport.ErrClosed):
		return failure.Errorf(failure.Transport, "%w: %w", errClosed, err)
	default:
		return err
	}
}

// step logs what begins.
func (f *folder) step(name string, about ...any) {
	if f.Log != nil {
		f.Log.Debug(name, about...)
	}
}

// prepare heeds the options of all methods: the log's level, and where the tools of templates are.
func (f *folder) prepare(v values) error {
	more, err := v.Bool(optVerbose)
	if err != nil {
		return err
	}

	if f.Log != nil && f.quiet == hclog.NoLevel {
		f.quiet = f.Log.GetLevel()
	}
	switch {
	case f.Log == nil:
	case more:
		f.Log.SetLevel(hclog.Debug)
	default:
		f.Log.SetLevel(f.quiet)
	}

	zephyr, err := v.Text(optZephyr)
	if err != nil {
		return err
	}
	if zephyr != "" {
		f.Builder.Variables = map[string]string{"ZEPHYR_BASE": zephyr}
	}

	program, err := v.Text(optWest)
	if err != nil || program == "" || program == west {
		return err
	}
	path, err := westOf(program)
	if err != nil {
		return err
	}

	// Builds search the folder, programmers ask for the path by name.
	f.Builder.Programs = []string{filepath.Dir(path)}
	f.Desk.Tool = func(name string) (string, error) {
		if name != west {
			return "", nil
		}
		return path, nil
	}
	return nil
}
