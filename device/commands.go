// This file lists the commands of flashing, erasing and debugging, for a dry run.

package device

import (
	"cmp"
	"context"
	"errors"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device/internal/desk"
	"github.com/boardsmith/boardsmith/device/internal/flashplan"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/flasher"
	"github.com/boardsmith/boardsmith/image"
)

// Commands are the command lines that flashing, erasing or debugging a device would run.
type Commands struct {
	Flash []string // erase and write; Flash writes less if the device already holds a part of the image
	Files []string // the files of these commands, with their addresses
	Debug string   // starts the gdb server; "" if the device has none
	// Missing is the error of a board that is not attached, with which the commands would fail now.
	Missing error
}

// dryRunPort is the placeholder for a port that is chosen when a server starts.
const dryRunPort = 3333

// FlashCommands returns the commands of Flash for an image, on a device that holds no part of it. It
// changes nothing, starts no emulated chip and takes no lease.
func (k *Desk) FlashCommands(ctx context.Context, b *boards.Board, which string, i *image.Image) (Commands, error) {
	return k.commands(ctx, b, which, func() (flasher.Job, string, error) {
		i, err := k.images().Intact(i)
		if err != nil {
			return flasher.Job{}, "", err
		}

		f, err := flashplan.ContentOf(b, i)
		if err == nil {
			err = f.CheckProgrammer(b, k.programmerOf(b))
		}
		if err != nil {
			return flasher.Job{}, "", err
		}
		return f.Job(f.Sectors), i.BuildDir, nil
	})
}

// EraseCommands returns the commands of Erase on a board without blank sectors. Like FlashCommands it changes
// nothing.
func (k *Desk) EraseCommands(ctx context.Context, b *boards.Board, which string) (Commands, error) {
	return k.commands(ctx, b, which, func() (job flasher.Job, buildDir string, err error) {
		job.Restart = true
		for _, s := range flashplan.Blank(b).Sectors {
			job.Erase, job.Verify = append(job.Erase, s.Sector), append(job.Verify, s.Segment())
		}
		return job, "", nil
	})
}

// DebugCommands returns the command of Debug, with port 3333 if o names none. Like FlashCommands it changes nothing.
func (k *Desk) DebugCommands(ctx context.Context, b *boards.Board, which string, o Debugging) (c Commands, err error) {
	o.Port = cmp.Or(o.Port, dryRunPort)

	programmer, missing, err := k.plannedProgrammer(ctx, b, which, "")
	if err != nil {
		return Commands{}, err
	}

	if programmer == nil {
		c.Debug, err = (&Device{board: b, desk: k}).stubCommand(o)
		return c, err
	}

	if server, ok := programmer.(debugServer); ok {
		return Commands{Debug: server.ServeCommand(o.Attach, o.Port), Missing: missing}, nil
	}
	return Commands{Missing: missing}, nil
}

// commands returns the commands of the board's programmer for a job, or nothing without a programmer.
func (k *Desk) commands(
	ctx context.Context, b *boards.Board, which string, jobOf func() (job flasher.Job, buildDir string, err error),
) (Commands, error) {
	if ctx.Err() != nil {
		return Commands{}, failure.Stopped(ctx, "dry run")
	}
	if err := k.check(b); err != nil || k.programmerOf(b) == boards.NoProgrammer {
		return Commands{}, err
	}

	job, dir, err := jobOf()
	if err != nil {
		return Commands{}, err
	}

	programmer, missing, err := k.plannedProgrammer(ctx, b, which, dir)
	if err != nil {
		return Commands{}, err
	}
	return Commands{Flash: programmer.Commands(job), Files: programmer.Files(job), Missing: missing}, nil
}

// plannedProgrammer returns the programmer that would be used for a build in a folder, nil if none is, and the error of
// a board that is not attached.
func (k *Desk) plannedProgrammer(
	ctx context.Context, b *boards.Board, which, build string,
) (p flasher.Programmer, missing, err error) {
	if ctx.Err() != nil {
		return nil, nil, failure.Stopped(ctx, "dry run")
	}
	if err := k.check(b); err != nil {
		return nil, nil, err
	}

	name := k.programmerOf(b)
	if name == boards.NoProgrammer {
		return nil, nil, nil
	}

	probe, err := k.plannedProbe(ctx, b, which)
	if which == "" && errors.Is(err, desk.ErrMissing) {
		missing, err = err, nil // the programmer would choose a probe
	}

	if err != nil {
		return nil, nil, err
	}

	p, err = flasher.New(name, flasher.Config{
		Flash: b.Flash, Chip: b.Identification, AnyChip: k.Reflash, Probe: probe, Build: build, Find: k.tool, Log: k.log(),
	})
	return p, missing, err
}

// plannedProbe returns the probe that would be used. For an emulated chip that does not run, its ports are
// placeholders.
func (k *Desk) plannedProbe(ctx context.Context, b *boards.Board, which string) (flasher.Probe, error) {
	if !b.Flash.Emulated {
		return desk.FindProbe(b, which, k.File)
	}

	server := &flasher.Emulated{Bitbang: "127.0.0.1:PORT", Remote: "127.0.0.1:PORT"}
	if chip := k.emulatedState(ctx, b); chip.Running {
		server = &chip.Server
	}
	return flasher.Probe{Emulated: server}, nil
}
