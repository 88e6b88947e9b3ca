package targets

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
)

func readDoc(t *testing.T, name string) string {
	t.Helper()
	return string(testkit.ReadFile(t, filepath.Join("..", "docs", name)))
}

// fenced returns the fenced blocks of a page in a language, "" for those without one.
func fenced(page, language string) (blocks []string) {
	var block strings.Builder
	open := ""
	for line := range strings.Lines(page) {
		switch mark := strings.TrimSpace(line); {
		case open == "" && strings.HasPrefix(mark, "```"):
			open = mark
		case open != "" && mark == "```":
			if open == "```"+language {
				blocks = append(blocks, block.String())
			}
			open = ""
			block.Reset()
		case open != "":
			block.WriteString(line)
		}
	}
	return blocks
}

// The comments before an example that a test runs, and before one that is the body of a package's Example.
var (
	commands = regexp.MustCompile("(?s)<!-- a test runs this -->\n```sh\n(.*?)```\n")
	goText   = regexp.MustCompile("(?s)<!-- the text of (\\S+) -->\n```go\n(.*?)```\n")
)

// pages returns README.md and the pages in docs by name. Those for who changes boardsmith have capitals.
func pages(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("../docs/[a-z]*.md")
	if err != nil || len(files) < 10 {
		t.Fatal(files, err)
	}
	all := map[string]string{}
	for _, file := range append(files, "../README.md") {
		all[filepath.Base(file)] = string(testkit.ReadFile(t, file))
	}
	return all
}

// TestPageCommands runs the commands with which pages begin in a folder that has samples, examples and a go.mod, as the
// repository has.
func TestPageCommands(t *testing.T) {
	s := openShop(t)
	var names []string
	all := pages(t)
	for name, page := range all {
		if commands.MatchString(page) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range drawn.Of(t, "commands of pages", names, 1) {
		t.Run(name, func(t *testing.T) {
			if name == "zephyr.md" && os.Getenv("ZEPHYR_BASE") == "" {
				t.Skip("ZEPHYR_BASE is not set: no Zephyr to build with (docs/zephyr.md)")
			}
			dir := t.TempDir()
			for _, folder := range []string{
				"examples/samples", "examples/tune-matmul", "examples/custom-board", "examples/c-model",
			} {
				testkit.Must(t, os.CopyFS(filepath.Join(dir, folder), os.DirFS(filepath.Join("..", folder))))
			}
			for _, file := range []string{"go.mod", "go.sum"} { // by which targets build boardsmith's other programs
				testkit.WriteFile(t, filepath.Join(dir, file), string(testkit.ReadFile(t, filepath.Join(s.dir, "repo", file))))
			}
			for _, m := range commands.FindAllStringSubmatch(all[name], -1) {
				cmd := exec.CommandContext(t.Context(), "sh", "-e", "-c", strings.ReplaceAll(m[1], "go tool mage", "mage"))
				cmd.Dir, cmd.Env = dir, append(s.environment(), "REPEAT=1") // ten samples take seconds in QEMU
				if base := os.Getenv("ZEPHYR_BASE"); name == "zephyr.md" {
					cmd.Env = append(cmd.Env, "ZEPHYR_BASE="+base)
				}
				testkit.Output(t, cmd)
			}
		})
	}
}

// TestPageGo compares the Go texts of pages with the examples that the tests run.
func TestPageGo(t *testing.T) {
	texts := 0
	for name, page := range pages(t) {
		for _, m := range goText.FindAllStringSubmatch(page, -1) {
			texts++
			source := testkit.ReadFile(t, filepath.Join("..", m[1]))
			_, body, ok := strings.Cut(string(source), "func Example() {\n")
			end := regexp.MustCompile(`\n\t// (Unordered o|O)utput:`).FindStringIndex(body)
			if !ok || end == nil {
				t.Fatalf("%s has no example with an output", m[1])
			}
			want := regexp.MustCompile(`(?m)^\t`).ReplaceAllString(body[:end[0]+1], "")
			want = strings.ReplaceAll(want, "../examples/", "examples/") // the page's reader is in the repository's root
			testkit.Equal(t, name+", which has the text of "+m[1], m[2], want)
		}
	}
	if texts < 2 {
		t.Errorf("%d texts of examples", texts)
	}
}

var (
	link     = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	mention  = regexp.MustCompile(`\bdocs/(?:formats/)?[\w-]+\.md\b`)
	heading  = regexp.MustCompile(`(?m)^#+ (.*)$`)
	notASlug = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// TestLinks finds the target of each link between pages, and each page in docs that any file names.
func TestLinks(t *testing.T) {
	links := 0
	err := filepath.WalkDir("..", func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{".git", "build", "fuzz"}, d.Name()):
			return fs.SkipDir
		case !d.Type().IsRegular() || slices.Contains([]string{".gz", ".tar", ".npz"}, filepath.Ext(file)):
			return nil
		}
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		for _, page := range mention.FindAllString(string(data), -1) {
			if _, err := os.Stat(filepath.Join("..", page)); err != nil {
				t.Errorf("%s names %s: %v", file, page, err)
			}
		}
		if filepath.Ext(file) == ".md" {
			links += checkLinks(t, file, string(data))
		}
		return nil
	})
	testkit.Must(t, err)
	if links < 200 {
		t.Errorf("%d links only", links)
	}
}

// checkLinks finds the targets of a page's links, and returns the number of these links.
func checkLinks(t *testing.T, file, text string) (links int) {
	t.Helper()
	for _, m := range link.FindAllStringSubmatch(text, -1) {
		target, anchor, _ := strings.Cut(m[1], "#")
		if strings.Contains(target, "://") {
			continue
		}
		links++
		to := file
		if target != "" {
			to = filepath.Join(filepath.Dir(file), filepath.FromSlash(target))
		}
		if _, err := os.Stat(to); err != nil {
			t.Errorf("%s: %v", file, err)
		} else if anchor != "" {
			page, err := os.ReadFile(to)
			if err != nil || !slices.ContainsFunc(heading.FindAllSubmatch(page, -1), func(m [][]byte) bool {
				slug := notASlug.ReplaceAllString(strings.ToLower(string(m[1])), "")
				return strings.ReplaceAll(slug, " ", "-") == anchor
			}) {
				t.Errorf("%s: %s has no heading for #%s, %v", file, to, anchor, err)
			}
		}
	}
	return links
}
