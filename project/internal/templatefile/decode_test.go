package templatefile

import (
	"errors"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/files/jsonfile"
	"github.com/boardsmith/boardsmith/internal/testkit"
)

// TestTemplateJSON: an error in template.json has its line where a line has it, and what is meant is one thing only.
func TestTemplateJSON(t *testing.T) {
	t.Parallel()
	const good = `{"doc": "a",
"build": ["make"],
"inputs": ["src"], "elf": "build/a.elf", "map": "build/a.map"}`
	for name, c := range map[string]struct{ text, by, want string }{
		"good":                  {"", "", ""},
		"an unknown field":      {`"build":`, `"biuld":`, `template.json:2: field "biuld" is not known; did you mean "build"?`},
		"a wrong type":          {`["make"]`, `7`, "template.json:2: "},
		"text after the brace":  {`a.map"}`, `a.map"} x`, "template.json:3: "},
		"a field twice":         {`"build"`, `"doc": "b", "build"`, `template.json:2: "doc" is given twice`},
		"a negative interface":  {`{`, `{"interface": -1, `, "template.json:1: interface: -1"},
		"a later interface":     {`{`, `{"interface": 2, "of_2": true, `, "has interface 2; the latest known one is 1"},
		"an impossible name":    {`{`, `{"env": {"A B": "1"}, `, `template.json:1: env.A B: "A B" is not a C identifier`},
		"firmware outside":      {`{`, `{"firmware": "..", `, `template.json:1: firmware: ".." is not a path inside the project`},
		"a script outside":      {`{`, `{"linker_script": "../../x.ld", `, `template.json:1: linker_script: "../../x.ld"`},
		"an unknown inner one":  {`{`, `{"apps": {"x": {"flies": []}}, `, `"apps.x.flies"`},
		"a landmark's one":      {`{`, `{"landmarks": {"part": []}, `, `template.json:1: field "landmarks.part"`},
		"a protocol of none":    {`{`, `{"landmarks": {"protocol": "smoke"}, `, `template.json:1: landmarks.protocol: "smoke" is none of lines`},
		"a search in a place":   {`{`, `{"find": [{"name": "A", "has": "x", "in": ["/opt"]}], `, `template.json:1: find[0].in[0]: "/opt" is not a place`},
		"a field of two levels": {`{`, `{"forms": {"bin": "build/a.bin"}, `, ""},
	} {
		data := strings.Replace(good, c.text, c.by, 1)
		_, err := readTemplate("x", fstest.MapFS{TemplateFile: {Data: []byte(data)}}, nil)
		testkit.WantErrorIf(t, c.want != "", err, failure.Config, c.want)
		var file *jsonfile.Error
		if strings.Contains(c.want, "template.json:") && !errors.As(err, &file) {
			t.Errorf("%s: %v has no line", name, err)
		}
	}
}
