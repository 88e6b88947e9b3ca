package targets

import (
	"flag"
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/targets/internal/console"
)

var update = flag.Bool("update", false, "write the variables into the comments of targets")

// variablesBegin is the line of a target's help before its variables.
const variablesBegin = "Variables:\n"

// TestHelp: the help of each target lists the variables that it reads, with their meaning and default as in
// docs/command-line.md. What else it names is there, too.
func TestHelp(t *testing.T) {
	page := readDoc(t, "command-line.md")
	sources, err := filepath.Glob("*.go")
	testkit.Must(t, err)
	targets := 0
	for _, source := range sources {
		if strings.HasSuffix(source, "_test.go") {
			continue
		}
		old := testkit.ReadFile(t, source)
		text := string(old)
		file, err := parser.ParseFile(token.NewFileSet(), source, old, parser.ParseComments)
		testkit.Must(t, err)
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || !isTarget(f) {
				continue
			}
			targets++
			checkNamed(t, f)
			comment := ""
			for _, c := range f.Doc.List {
				comment += c.Text + "\n"
			}
			head, _, _ := strings.Cut(comment, "//\n// "+variablesBegin)
			text = strings.Replace(text, comment, head+variablesOf(targetName(f), head, page), 1)
		}
		if text == string(old) {
			continue
		}
		if !*update {
			t.Errorf("the help in %s is not up to date: go test ./targets -run TestHelp -update", source)
		} else if err := os.WriteFile(source, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if targets < 35 {
		t.Errorf("%d targets only", targets)
	}
}

// isTarget reports whether mage calls a function by name.
func isTarget(f *ast.FuncDecl) bool {
	if f.Recv == nil {
		return f.Name.IsExported()
	}
	of, ok := f.Recv.List[0].Type.(*ast.Ident)
	return ok && of.IsExported() && f.Name.IsExported()
}

// targetName returns a target's name as mage has it.
func targetName(f *ast.FuncDecl) string {
	name := strings.ToLower(f.Name.Name)
	if f.Recv != nil {
		name = strings.ToLower(f.Recv.List[0].Type.(*ast.Ident).Name) + ":" + name
	}
	return name
}

// TestInputsAreDocumented: each variable is in docs/command-line.md or, if a check reads it, in docs/CONTRIBUTING.md.
func TestInputsAreDocumented(t *testing.T) {
	doc := readDoc(t, "command-line.md") + readDoc(t, "CONTRIBUTING.md")
	for _, name := range console.Variables() {
		if !regexp.MustCompile("(?m)^\\| `([A-Z]+`, `)*" + name + "(=1)?`").MatchString(doc) {
			t.Errorf("neither docs/command-line.md nor docs/CONTRIBUTING.md lists %s", name)
		}
	}
}

// checkNamed: what the help names in capitals is a variable that the target reads, and each page is there.
func checkNamed(t *testing.T, f *ast.FuncDecl) {
	help, _, _ := strings.Cut(f.Doc.Text(), variablesBegin)

	// mage -l prints the first sentence without the function's name, behind 21 columns of the target's.
	if columns := 21 + len(strings.TrimPrefix(new(doc.Package).Synopsis(help), f.Name.Name+" ")); columns > 100 {
		t.Errorf("the first sentence of %s takes %d columns of mage -l: %s", f.Name, columns, help)
	}

	for _, name := range regexp.MustCompile(`\b[A-Z][A-Z_]{2,}\b`).FindAllString(help, -1) {
		if strings.Contains(" HTML JSON TVM RAM FOLDER ", " "+name+" ") || targetName(f) == "boards" {
			continue
		}
		if !console.Reads(targetName(f), name) {
			t.Errorf("the help of %s names %s, which it does not read", f.Name, name)
		}
	}
	for _, name := range regexp.MustCompile(`docs/[\w-]+\.md`).FindAllString(help, -1) {
		if _, err := os.Stat("../" + name); err != nil {
			t.Errorf("the help of %s: %v", f.Name, err)
		}
	}
}

var (
	variableRow = regexp.MustCompile("(?m)^\\| (`[A-Z_]+(?:=1)?`(?:, `[A-Z_]+`)*) \\| (.*?) \\| ?(.*?) ?\\|$")
	ofTargets   = regexp.MustCompile("^(?:of|with) ((?:`[a-z:]+`(?:, | and )?)+)[:,]? *(.*)$")
	markdown    = regexp.MustCompile("`|\\[([^]]*)\\]\\([^)]*\\)")
)

// variablesOf returns the comment with a target's variables, from the table in docs/command-line.md. Those that all
// targets read are in it only if the help above names them, and no switches.
func variablesOf(target, help, doc string) string {
	var b strings.Builder
	_, table, _ := strings.Cut(doc, "| variable | meaning | default |")
	table, _, _ = strings.Cut(table, "\n\n")
	for _, row := range variableRow.FindAllStringSubmatch(table, -1) {
		for quoted := range strings.SplitSeq(row[1], ", ") {
			shown := strings.Trim(quoted, "`")
			name := strings.TrimSuffix(shown, "=1")
			if !console.Reads(target, name) || console.Reads("", name) && (name != shown || !strings.Contains(help, name)) {
				continue
			}
			meaning := clause(row[2], target)
			if meaning == "" {
				continue // it may be set for another target of the same command
			}
			line := fmt.Sprintf("//\t%-12s %s", shown, meaning)
			const most = 112
			end := ""
			if d := clause(row[3], target); d != "" && d != "none" {
				end = " [" + shortened(d, 40) + "]"
			}
			b.WriteString(shortened(line, most-len([]rune(end))) + end + "\n")
		}
	}
	if b.Len() == 0 {
		return ""
	}
	return "//\n// " + variablesBegin + "//\n" + b.String()
}

// shortened returns at most n characters of a text, cut at a space.
func shortened(text string, n int) string {
	runes := []rune(text)
	if len(runes) <= n {
		return text
	}
	text = string(runes[:n-1])
	return strings.TrimRight(text[:strings.LastIndexByte(text, ' ')], " ,:;") + " …"
}

// clause returns the parts of a cell that are for a target, as plain text: those that name it, else the first part.
// What begins with "also" adds to the first part.
func clause(cell, target string) string {
	var own []string
	general := ""
	for part := range strings.SplitSeq(cell, "; ") {
		m := ofTargets.FindStringSubmatch(part)
		switch {
		case m == nil && general == "":
			general = part
		case m != nil && strings.Contains(m[1], "`"+target+"`"):
			own = append(own, m[2])
		}
	}
	if len(own) == 0 || strings.HasPrefix(own[0], "also ") {
		own = append([]string{general}, own...)
	}
	return strings.TrimSpace(markdown.ReplaceAllString(strings.Join(own, "; "), "$1"))
}
