// This file writes the page of an acceptance, and reads who accepted which board when.

package accept

import (
	"bufio"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/boardfile"
	"github.com/boardsmith/boardsmith/internal/gitfolder"
)

// A Report is what a board did.
type Report struct {
	Board      string
	Doc        string // the board file's
	Digest     string // of the merged board: DigestOf
	Template   string
	BuildID    string
	Device     string // as in device.FlashReport; "" for a process or an emulator
	Programmer string
	Chip       string // its id; "" if it has none
	Short      bool
	Results    []Result
	Failed     *Error // nil: every step passed
}

func newReport(b *boards.Board, template string, i *image.Image, short bool) *Report {
	return &Report{
		Board: b.Name, Doc: b.Doc, Digest: DigestOf(b), Template: template, BuildID: i.ID(), Short: short,
	}
}

// DigestOf returns a number of a merged board that changes with each of its fields, and with the files beside its board
// files that they name: an acceptance is of one such board.
func DigestOf(b *boards.Board) string {
	text, err := json.Marshal(b)
	if err != nil {
		return "" // a Board has only fields that can be encoded
	}

	h := sha256.New()
	h.Write(text)

	// The board has only the names of these files, but an acceptance is of their content.
	for _, s := range slices.Concat(b.Sources, []boards.Source{b.LinkerScript, b.Startup}) {
		digestFile(h, s.Dir, s.Name)
	}

	for _, s := range b.Include {
		digestFolder(h, s, boardfile.IsHeader)
	}

	for _, s := range b.Libraries {
		if boardfile.IsPath(s.Name) {
			digestFolder(h, s, func(string) bool { return true })
		}
	}

	for _, name := range boardfile.FilesIn(b.PostLink.Words) {
		digestFile(h, b.PostLink.Dir, name)
	}
	for _, name := range boardfile.FilesIn(b.Link.Args) {
		digestFile(h, b.Link.Dir, name)
	}

	return hex.EncodeToString(h.Sum(nil)[:8])
}

// digestFile adds a file beside a board file. A file of the template, or one that cannot be read, adds only that.
func digestFile(h hash.Hash, dir, name string) {
	if dir == "" || name == "" {
		return // a shipped board's, or none
	}

	data, mode, err := boardfile.ReadBeside(dir, name)
	if err != nil {
		fmt.Fprintf(h, "%q is not here\n", name)
		return
	}

	fmt.Fprintf(h, "%q %o %x\n", name, mode, sha256.Sum256(data))
}

// digestFolder adds the files of a folder beside a board file whose names are wanted.
func digestFolder(h hash.Hash, folder boards.Source, wanted func(string) bool) {
	if folder.Dir == "" {
		return
	}

	names, err := boardfile.FilesBeside(folder.Dir, folder.Name, wanted)
	if err != nil {
		fmt.Fprintf(h, "%q is not here\n", folder.Name)
	}

	for _, name := range names {
		digestFile(h, folder.Dir, name)
	}
}

// A Signature is who accepted a board, and when.
type Signature struct {
	By     string
	On     time.Time // the day
	Digest string    // of the accepted board
	Short  bool
}

// PageOf returns the path of a board's page: beside its file, or in the folder boards of folder, for a shipped board
// and for one of a git repository, whose fetched folder is not changed.
func PageOf(b *boards.Board, folder string) string {
	dir := b.Dir
	if dir == "" || gitfolder.Holds(dir) {
		dir = filepath.Join(folder, "boards")
	}
	return filepath.Join(dir, path.Base(b.Name)+".accepted.md")
}

const (
	byLine     = "Accepted by: "
	onLine     = "On: "
	digestLine = "Board file: "
	shortLine  = "Repetitions: few"
)

// Page returns the report as a page in Markdown, in three parts: what was right, what was wrong, what was not tested.
func (r *Report) Page(by string, on time.Time) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("# Board %s", r.Board)
	line("")
	line("%s", r.Doc)
	line("")

	signed := byLine
	if r.Failed != nil {
		signed = "Tested by: "
	}
	line("* %s%s", signed, by)
	line("* %s%s", onLine, on.Format(time.DateOnly))
	line("* %s%s", digestLine, r.Digest)
	if r.Short {
		line("* %s", shortLine)
	}

	line("* Template: %s, firmware %s", r.Template, r.BuildID)
	for _, fact := range [][2]string{{"Device", r.Device}, {"Programmer", r.Programmer}, {"Chip", r.Chip}} {
		if fact[1] != "" {
			line("* %s: %s", fact[0], fact[1])
		}
	}

	part := func(title string, wanted func(Result) bool) {
		first := true
		for _, s := range r.Results {
			if !wanted(s) {
				continue
			}
			if first {
				line("\n## %s\n", title)
				first = false
			}
			if line("* **%s**: %s", s.Name, s.Doc); s.Skipped != "" {
				line("  * %s", s.Skipped)
			}
			for _, f := range s.Details {
				line("  * %s", f)
			}
		}
	}
	part("Right", func(s Result) bool { return s.Skipped == "" })
	if r.Failed != nil {
		line("\n## Wrong\n")
		line("* **%s**: %s", r.Failed.Step.Name, r.Failed.Step.Doc)
		line("  * %v", r.Failed.Err)
		line("  * look at: %s", cmp.Or(r.Failed.NextStep(), r.Failed.Step.Look))
		for _, s := range steps[len(r.Results)+1:] {
			line("* **%s**: not reached", s.Name)
		}
	}

	part("Not tested", func(s Result) bool { return s.Skipped != "" })
	return b.String()
}

// Read returns the signature of a page. ok is false if there is none, or it is of a board that failed.
func Read(page string) (s Signature, ok bool) {
	f, err := os.Open(filepath.Clean(page))
	if err != nil {
		return s, false
	}
	defer f.Close()

	for lines := bufio.NewScanner(f); lines.Scan(); {
		text, isItem := strings.CutPrefix(lines.Text(), "* ")
		if !isItem {
			continue
		}
		// A page of a board that failed begins with "Tested by", and so has no signature.
		if by, found := strings.CutPrefix(text, byLine); found {
			s.By, ok = by, true
		}
		if on, found := strings.CutPrefix(text, onLine); found {
			s.On, _ = time.Parse(time.DateOnly, on) // a page that somebody edited has no day
		}
		if digest, found := strings.CutPrefix(text, digestLine); found {
			s.Digest = digest
		}
		s.Short = s.Short || text == shortLine
	}

	return s, ok
}
