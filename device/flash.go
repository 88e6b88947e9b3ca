// This file flashes: it asks the board what it holds, decides, programs, verifies, and keeps the ledger honest about it.

package device

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"time"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/flasher"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/command"
	"github.com/boardsmith/boardsmith/internal/ledger"
	"github.com/boardsmith/boardsmith/rpc"
	"github.com/boardsmith/boardsmith/transport"
)

const (
	askWithin     = time.Second // for running firmware to say what it is
	flashAttempts = 3           // to write what did not verify
)

// A FlashReport says what Flash did.
type FlashReport struct {
	Wrote      int64    // bytes programmed
	Erased     int      // sectors erased
	Sectors    int      // that the image has
	Holds      bool     // it was verified that the board holds the image, whether it answers or not
	Why        string   // why it was that much, in a few words
	Device     string   // "chip:" and its id, else "probe:" and its serial; "" where there is no probe
	Programmer string   // the programmer
	Warn       []string // sectors near the end of their rated life
}

// A WearError is a sector that was erased as often as it is rated for.
type WearError struct {
	Device  string
	Perhaps string // the chip that Device may be, which was behind its probe last; "" if it answers
	Sector  flasher.Sector
	Erases  int // those of Perhaps too
	Rated   int
}

func (e *WearError) Error() string {
	device := e.Device
	if e.Perhaps != "" {
		device += ", which does not answer and may be " + e.Perhaps
	}
	return fmt.Sprintf("%s: %v was erased %d times and is rated for %d", device, e.Sector, e.Erases, e.Rated)
}

// FailureClass says that flashing was refused.
func (e *WearError) FailureClass() failure.Class { return failure.Flash }

// NextStep says how to go on all the same.
func (e *WearError) NextStep() string {
	if e.Perhaps != "" {
		return "FORCE=1 if it is another chip: the ledger knows it when its new firmware answers"
	}
	return "use another board, or FORCE=1 to write to a worn one (everything written is verified)"
}

// tool finds a programmer.
func (k *Desk) tool(name string) (string, error) {
	if k.Tool != nil {
		return k.Tool(name)
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", &command.MissingToolError{Tool: name, Install: failure.Mage + " setup"}
	}
	return path, nil
}

// program brings the board to hold the image.
func (d *Device) program(ctx context.Context, i *image.Image) (FlashReport, error) {
	if !d.attachment.hasProbe() {
		return d.holdsAlready(ctx, i)
	}
	img, err := flashImageOf(d.board, i)
	if err != nil {
		return FlashReport{}, err
	}
	if err := d.attachment.take(i); err != nil {
		return FlashReport{}, err
	}
	f := flashing{d: d, power: powerCycle{d: d}, facts: flashFacts{image: img, force: d.desk.Reflash}}
	if err := f.look(ctx); err != nil {
		return FlashReport{}, err
	}
	return f.run(ctx)
}

// holdsAlready is Flash of a device that nothing can program: its firmware must answer as the image, now.
func (d *Device) holdsAlready(ctx context.Context, i *image.Image) (FlashReport, error) {
	answer, err := d.greet(ctx, i)
	if err == nil {
		err = d.sameChip(answer.chip)
	}
	var other *WrongImageError
	var silent *transport.HandshakeError
	if errors.As(err, &other) || errors.As(err, &silent) && failure.Of(err) == failure.Boot {
		err = &NoProgrammerError{Board: d.board.Name, Image: i.Path, Err: err}
	}
	if err != nil {
		return FlashReport{}, err
	}
	why := "firmware answered with build " + i.ID()
	return FlashReport{Holds: true, Why: why, Device: d.attachment.entryOf(answer), Programmer: d.attachment.tool}, nil
}

// A flashing is one run of program.
type flashing struct {
	d       *Device
	facts   flashFacts
	perhaps ledger.Entry     // of the chip that one which does not answer may be; the zero value: none is known
	erasing []flasher.Sector // that the last job was to erase
	report  FlashReport
	power   powerCycle
}

// look asks the firmware, and opens the ledger at the device that answered, or at the probe. What is another board by
// what is known of it is refused: *WrongBoardError.
func (f *flashing) look(ctx context.Context) error {
	n := f.d.attachment
	n.chip = f.d.desk.File.noted(f.d.board.Name, n).Chip // what an earlier flash found may have been swapped since
	answer, err := f.d.ask(ctx, f.facts.image.Image)
	if err != nil {
		return err
	}
	f.facts.answer = answer
	if err := f.plausible(); err != nil {
		return err
	}
	entry, err := f.known()
	if err != nil {
		return err
	}
	if entry.Lost != "" {
		f.d.desk.log().Warn("the ledger's file was damaged; its erase counts begin anew", "kept", entry.Lost)
	}
	entry.Probe, entry.Board = n.which(), f.d.board.Name
	f.facts.entry, f.facts.inWork = entry, sectorsInWork(entry)
	f.report = FlashReport{Device: entry.Device, Programmer: n.tool, Sectors: len(f.facts.image.sectors)}
	return f.suspect()
}

// run decides and acts until the board is known to hold the image.
func (f *flashing) run(ctx context.Context) (FlashReport, error) {
	for attempt := 0; ; {
		decision := decideFlash(f.facts)
		f.d.desk.log().Info("flash", "decision", decision.why)
		if f.report.Wrote == 0 || decision.action == flashWrite {
			f.report.Why = decision.why
		}
		switch decision.action {
		case flashNothing:
			return f.report, f.holds(ctx, f.facts.held != nil || f.report.Erased > 0)
		case flashRead:
			if err := f.read(ctx); err != nil && !f.power.helps(ctx, err) {
				return f.report, err
			}
		case flashWrite:
			err := f.write(ctx, f.facts.image.job(decision.sectors))
			if err == nil {
				return f.report, f.holds(ctx, true)
			}
			var differs *flasher.VerifyError
			if attempt++; !errors.As(err, &differs) && !f.power.helps(ctx, err) || attempt == flashAttempts {
				return f.report, err
			}
			f.facts.force, f.facts.answer, f.facts.held = false, nil, nil
		}
	}
}

// holds notes that the board holds the image, and asks the firmware, if it was started anew, who it is.
func (f *flashing) holds(ctx context.Context, anew bool) error {
	if err := f.clean(); err != nil {
		return err
	}
	f.report.Holds = true
	if !anew {
		return nil
	}
	return f.answers(ctx)
}

// read reads the image's sectors back, in one run of the programmer.
func (f *flashing) read(ctx context.Context) error {
	sectors := f.facts.image.sectors
	var ranges []flasher.Range
	for _, s := range sectors { // neighbours at once
		if n := len(ranges); n > 0 && ranges[n-1].Addr+ranges[n-1].Size == s.Addr {
			ranges[n-1].Size += s.Size
		} else {
			ranges = append(ranges, flasher.Range{Addr: s.Addr, Size: s.Size})
		}
	}
	got, err := f.d.attachment.programmer.Read(ctx, ranges)
	if err != nil {
		return err
	}
	held := map[uint64]string{}
	for _, part := range got {
		for len(part.Data) > 0 {
			s := sectors[len(held)] // those that were not taken yet, in the same order
			sum := sha256.Sum256(part.Data[:s.Size])
			held[s.Addr], part.Data = hex.EncodeToString(sum[:]), part.Data[s.Size:]
		}
	}
	f.facts.held = held
	return nil
}

// write does a job that erases. The ledger is dirty from before the first erase until all was verified, and counts each erase
// before it is done: a count may be too high after a crash, never too low. Where the chip is another, nothing was begun.
func (f *flashing) write(ctx context.Context, job flasher.Job) error {
	begun, err := f.do(ctx, job)
	var differs *flasher.VerifyError
	for _, s := range begun { // a sector that was programmed to the end is judged by what it reads as
		f.facts.inWork[s.Addr] = err != nil && !errors.As(err, &differs)
	}
	if len(begun) > 0 {
		for _, s := range job.Write {
			f.report.Wrote += int64(len(s.Data))
		}
	}
	return err
}

// job is what writes these sectors and verifies the whole image: the sector with the build id is erased first and written
// last, also where nothing in it changes.
func (img *flashImage) job(sectors []imageSector) flasher.Job {
	job := flasher.Job{Restart: true}
	var id *imageSector
	for k := range sectors {
		s := &sectors[k]
		if s.holdsID {
			id = s
			job.Erase = slices.Insert(job.Erase, 0, s.Sector)
			continue
		}
		job.Erase = append(job.Erase, s.Sector)
		job.Write = append(job.Write, s.segment())
	}
	if id == nil { // what is not changed by writing: the image's name must not stay while the rest changes
		for _, s := range img.sectors {
			if s.holdsID {
				job.Erase = slices.Insert(job.Erase, 0, s.Sector)
				id = &s
			}
		}
	}
	if id != nil {
		job.Write = append(job.Write, id.segment())
	}
	for _, s := range img.sectors {
		job.Verify = append(job.Verify, s.segment())
	}
	return job
}

// clean notes that the board was just found to hold the image.
func (f *flashing) clean() error {
	e := &f.facts.entry
	e.Dirty, e.Image, e.BuildID = false, f.facts.image.Digest, f.facts.image.ID()
	e.Verified, e.LastWhy = time.Now().UTC().Round(time.Second), f.report.Why
	for _, s := range f.facts.image.sectors {
		e.Sector(s.Addr, s.Size).Digest = s.digest
	}
	return f.save()
}

func (f *flashing) save() error {
	f.facts.entry.Seen = time.Now().UTC()
	return f.d.attachment.ledger.Save(f.facts.entry)
}

// ask asks the running firmware what it is; nil if nothing sensible answers soon. Where that is not next, the image that is
// about to take its place, what it has to say of a fault is logged: afterwards nobody could tell where that was. An
// error says that the device is not ours to use: *LeaseError, *AmbiguousError; or that ctx has ended.
func (d *Device) ask(ctx context.Context, next *image.Image) (*firmwareAnswer, error) {
	err := d.attachment.again(ctx, d.board)
	if err != nil && !notAttached(err) {
		return nil, err
	}
	var answer *firmwareAnswer
	if err == nil {
		answer, err = d.asked(ctx, next)
	}
	if ctx.Err() != nil {
		return nil, failure.Stopped(ctx, "ask")
	}
	if err != nil {
		d.desk.log().Debug("ask", "error", err)
		return nil, nil
	}
	return answer, nil
}

func (d *Device) asked(ctx context.Context, next *image.Image) (*firmwareAnswer, error) {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	link := func(ctx context.Context) (transport.Link, error) { return d.attachment.openFound(ctx, d.board) }
	t, err := begin(ctx, link, transport.SessionOptions{Log: d.desk.log()})
	if err != nil {
		return nil, err
	}
	defer t.Close()
	var answer *firmwareAnswer
	s := rpc.New(t, rpc.Options{Log: d.desk.log(), Explain: func(rec *rpc.FaultRecord, called string) rpc.Explanation {
		return d.explainBuild(answer, rec, called)
	}})
	f, err := s.Function(ctx, "boardsmith.build_id")
	if err != nil {
		return nil, err
	}
	answer, err = askBuild(ctx, f)
	if err == nil && next != nil && answer.buildID != next.BuildID {
		if _, err := s.PriorFault(ctx); err != nil { // it logs the fault
			d.desk.log().Debug("ask for a fault", "error", err)
		}
	}
	return answer, err
}

// explainBuild explains a fault of the build that has just answered, whose image the cache may have.
func (d *Device) explainBuild(answer *firmwareAnswer, rec *rpc.FaultRecord, called string) rpc.Explanation {
	if answer == nil {
		return rpc.Explanation{}
	}
	i, err := d.desk.images().Find(hex.EncodeToString(answer.buildID[:]))
	if err != nil {
		d.desk.log().Warn("the fault's place in the program is unknown", "error", err)
		return rpc.Explanation{}
	}
	return d.explain(i)(rec, called)
}

// askBuild calls boardsmith.build_id with a new nonce: the build id, the CRC-32 of the nonce and the image's flash as it is
// now, the chip's id. Firmware of an older boardsmith refuses the nonce, and is asked without.
func askBuild(ctx context.Context, f rpc.Function) (*firmwareAnswer, error) {
	nonce := binary.LittleEndian.AppendUint64(nil, rand.Uint64())
	answer, err := f.Call(ctx, int64(binary.LittleEndian.Uint64(nonce)))
	if refused := new(rpc.DeviceError); errors.As(err, &refused) && failure.Of(err) != failure.Transport {
		nonce = nil
		answer, err = f.Call(ctx)
	}
	if err != nil {
		return nil, err
	}
	const idBytes, crcBytes = 16, 4
	b, ok := answer.([]byte)
	if !ok || len(b) < idBytes+crcBytes {
		return nil, failure.New(failure.Transport, "", "boardsmith.build_id answered %T of %d bytes", answer, len(b))
	}
	a := &firmwareAnswer{buildID: [16]byte(b), nonce: nonce, chip: hex.EncodeToString(b[idBytes+crcBytes:])}
	a.crc = binary.LittleEndian.Uint32(b[idBytes:])
	return a, nil
}
