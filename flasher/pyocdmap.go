// This file reads pyOCD's data of a chip.

package flasher

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/command"
)

const findTimeout = 20 * time.Second // a tool only looks for its own files

// mapScript prints the memory map that pyOCD has for a chip. A session without a probe has the chip's class only.
const mapScript = `import sys
from pyocd.core.session import Session
from pyocd.probe.debug_probe import DebugProbe
class NoProbe(DebugProbe):
    unique_id = description = ''
for r in Session(NoProbe(), no_config=True, target_override=sys.argv[1]).target.memory_map:
    for s in (r.submap if getattr(r, 'has_subregions', False) else [r]):
        print('` + mark + `%s %d %d %d' % (r.type.name, s.start, s.length, s.sector_size if r.is_flash else 0))
`

// MemoryMap returns the RAM and flash that pyOCD has for Flash.Chip, without a probe. Errors: class config for a chip
// that pyOCD does not have; tool-missing if it cannot be asked.
func (c Config) MemoryMap(ctx context.Context) (memory []boards.Region, err error) {
	path, err := c.toolIn(ctx, "pyocd")
	if err != nil {
		return nil, err
	}

	python, err := pythonOf(path)
	if err != nil {
		return nil, failure.Errorf(failure.ToolMissing, "the Python that runs %s is not found: %w", path, err)
	}

	line := func(text string) {
		r := boards.Region{Exec: true}
		var kind string
		var sector uint64
		n, _ := fmt.Sscanf(text, mark+"%s %d %d %d", &kind, &r.Origin, &r.Size, &sector) // other lines are not of the map

		if r.Name, r.Nonvolatile = strings.ToLower(kind), kind == "FLASH"; sector > 0 {
			r.Sectors = []boards.Sectors{{Count: int(uint64(r.Size) / sector), Size: boards.Number(sector)}}
		}
		if n == 4 && (kind == "RAM" || r.Nonvolatile) {
			memory = append(memory, r)
		}
	}

	// Python imports from the program's folder, as for the program itself, and from no folder of the user.
	run := command.Command{
		Path: python, Args: []string{"-c", mapScript, c.Flash.Chip}, Dir: filepath.Dir(path), Out: line,
		Timeout: findTimeout,
	}

	err = run.Run(ctx)

	// Only the choice of the chip is the user's: any other failure is that of this pyOCD.
	if explained := explain(err); err == nil || ctx.Err() != nil || failure.Of(explained) == failure.Config {
		return memory, explained
	}
	return nil, failure.Errorf(failure.ToolMissing, "pyOCD's data cannot be read: %w", err)
}

// pythonWord is the interpreter in a program's first two lines: that of "#!/usr/bin/python3 -sP", of "#!/usr/bin/env
// python3", or for a long path of "#!/bin/sh" and, below it, exec "/path/python" "$0".
var pythonWord = regexp.MustCompile(`(/[^"'\n]*/)?python[\d.]*`)

func pythonOf(program string) (string, error) {
	text, err := os.ReadFile(program)
	if err != nil || !bytes.HasPrefix(text, []byte("#!")) {
		return "", cmp.Or(err, errors.New("the program is no script"))
	}

	lines := bytes.SplitN(text, []byte("\n"), 3)
	return exec.LookPath(string(pythonWord.Find(bytes.Join(lines[:min(len(lines), 2)], []byte("\n")))))
}
