// This file reads the flash settings in the folder of a Zephyr build.

package flasher

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
)

// A zephyrBuild is the folder of a Zephyr build.
type zephyrBuild struct {
	dir     string
	base    string // Zephyr's own folder
	file    string // runners.yaml
	usual   string // the runner that the board prefers
	runners []string
	args    map[string][]string // by runner
}

// openZephyrBuild reads a build's folder. Errors have class config.
func openZephyrBuild(dir string) (*zephyrBuild, error) {
	if dir == "" {
		return nil, failure.New(failure.Config, "flash a Zephyr project that was built, or choose another PROGRAMMER",
			"west flashes from the folder of a Zephyr build, and this image has none")
	}
	b := &zephyrBuild{dir: dir, file: filepath.Join(dir, "zephyr", "runners.yaml")}
	cache, err := os.ReadFile(filepath.Join(dir, "CMakeCache.txt"))
	if err == nil {
		var runners []byte
		if runners, err = os.ReadFile(b.file); err == nil {
			b.parse(runners)
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, failure.New(failure.Config, "build a Zephyr project, or choose another PROGRAMMER",
			"%s is not the folder of a Zephyr build: %w", dir, err)
	}
	if err != nil {
		return nil, fmt.Errorf("zephyr build: %w", err)
	}
	for line := range bytes.Lines(cache) {
		if v, ok := bytes.CutPrefix(line, []byte("ZEPHYR_BASE:")); ok { // NAME:TYPE=value
			_, value, _ := strings.Cut(string(v), "=")
			b.base = strings.TrimSpace(value)
		}
	}
	if b.base == "" {
		return nil, failure.New(failure.Config, "build it again", "%s does not contain Zephyr's folder",
			filepath.Join(dir, "CMakeCache.txt"))
	}
	return b, nil
}

// parse reads runners.yaml as Zephyr's build writes it: one item to a line, lists below their names.
func (b *zephyrBuild) parse(text []byte) {
	b.args = map[string][]string{}
	top, runner := "", ""
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		line := strings.TrimRight(lines.Text(), " ")
		word := strings.TrimSpace(line)
		item, isItem := strings.CutPrefix(word, "- ")
		item = unquoted(item)
		switch name, value, _ := strings.Cut(word, ":"); {
		case word == "" || word[0] == '#':
		case line[0] != ' ' && !isItem:
			top, runner = name, ""
			if name == "flash-runner" {
				b.usual = unquoted(strings.TrimSpace(value))
			}
		case top == "runners" && isItem:
			b.runners = append(b.runners, item)
		case top == "args" && isItem:
			b.args[runner] = append(b.args[runner], item)
		case top == "args":
			runner = name
		}
	}
}

func unquoted(s string) string {
	if n := len(s); n >= 2 && (s[0] == '\'' || s[0] == '"') && s[n-1] == s[0] {
		return s[1 : n-1]
	}
	return s
}

// runner returns the board's usual runner if it can read back, else another that can, or "".
func (b *zephyrBuild) runner() string {
	for _, name := range append([]string{b.usual}, b.runners...) {
		if slices.Contains([]string{"openocd", "pyocd"}, name) {
			return name
		}
	}
	return ""
}

// argument returns the build's value of a runner's option, or "".
func (b *zephyrBuild) argument(runner, option string) string {
	args := b.args[runner]
	for i, a := range args {
		if v, ok := strings.CutPrefix(a, option+"="); ok {
			return v
		}
		if a == option && i+1 < len(args) {
			return args[i+1]
		}
	}
	return ""
}

// writeHex writes segments as Intel HEX (Intel, Hexadecimal Object File Format, rev. A): 32 bytes to a record, and a
// record with the upper half of the address wherever that changes.
func writeHex(path string, segments []Segment) error {
	const line, half = 32, 1 << 16
	var w bytes.Buffer
	upper := uint64(0)
	for _, s := range segments {
		for at, rest := s.Addr, s.Data; len(rest) > 0; {
			if at/half != upper {
				upper = at / half
				hexRecord(&w, 0, 4, []byte{byte(upper >> 8), byte(upper)})
			}
			n := min(uint64(len(rest)), line, half-at%half)
			hexRecord(&w, uint16(at), 0, rest[:n])
			at, rest = at+n, rest[n:]
		}
	}
	hexRecord(&w, 0, 1, nil)
	return os.WriteFile(path, w.Bytes(), 0o600)
}

func hexRecord(w *bytes.Buffer, at uint16, kind byte, data []byte) {
	record := append([]byte{byte(len(data)), byte(at >> 8), byte(at), kind}, data...)
	sum := byte(0)
	for _, b := range record {
		sum -= b
	}
	fmt.Fprintf(w, ":%X%02X\n", record, sum)
}
