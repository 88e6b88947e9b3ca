// This file reads pyOCD's data of a chip.

package flasher

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
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

// MemoryMap returns the RAM and flash that pyOCD has for the chip in the board file, without a probe. Errors: class
// config for a chip that pyOCD does not have.
func (p *pyocd) MemoryMap(ctx context.Context) (memory []boards.Region, err error) {
	python, err := p.python()
	if err != nil {
		return nil, err
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
	run := command.Command{Path: python, Args: []string{"-c", mapScript, p.Flash.Chip}, Out: line, Timeout: findTimeout}
	return memory, explain(run.Run(ctx))
}

// python returns the interpreter that runs pyOCD, from the first line of its program.
func (p *pyocd) python() (string, error) {
	path, err := p.Find("pyocd")
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(path)
	first, _, _ := bytes.Cut(text, []byte("\n"))
	words := strings.Fields(strings.TrimPrefix(string(first), "#!"))
	if err != nil || !bytes.HasPrefix(text, []byte("#!")) || len(words) == 0 ||
		!strings.Contains(string(first), "python") {
		return "", failure.Errorf(failure.ToolMissing, "%s does not name the Python that runs it", path)
	}
	return exec.LookPath(words[len(words)-1])
}
