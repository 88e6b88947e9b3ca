// This file lists the variables that targets read, and compares the environment with the list.

package console

import (
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/boardsmithjson"
	"github.com/boardsmith/boardsmith/internal/spelling"
)

// readers lists the targets that read each variable, "*" for all of them; to others it is not set. The variables are
// explained in docs/command-line.md and docs/CONTRIBUTING.md.
var readers = map[string][]string{}

// writers are the variables of the files that each target writes.
var writers = map[string][]string{}

// every names the variables that all targets read.
type every struct {
	JSON    bool   `var:"JSON"`
	Verbose bool   `var:"VERBOSE"`
	Term    string `var:"TERM"`
	Path    string `var:"BOARDSMITH_PATH"`
	Ledger  string `var:"BOARDSMITH_LEDGER"`
	Cache   string `var:"CACHE_MIB"`
}

func init() { Declare("*", every{}) }

// Declare adds a target and the struct of the variables that it reads: those in the tags of its fields, as Read has
// them. Call it while packages are initialized.
func Declare(target string, variables any) {
	for _, f := range reflect.VisibleFields(reflect.TypeOf(variables)) {
		if name, ok := f.Tag.Lookup("var"); ok {
			readers[name] = append(readers[name], target)
			if _, ok := f.Tag.Lookup("write"); ok {
				writers[target] = append(writers[target], name)
			}
		}
	}
}

// shared are variables that other systems set, too: WSL sets NAME, CI sets IMAGE, LABELS and TARGET, and scripts are
// traced with TRACE=1.
var shared = []string{"IMAGE", "LABELS", "LOG", "NAME", "TARGET", "TRACE"}

// isOurs reports whether a value has the form of one of the shared variables.
func (c *Console) isOurs(name, value string) bool {
	switch name {
	case "IMAGE":
		return word.MatchString(value) // the beginning of a digest, or a word: a user's mistake is an error
	case "LABELS":
		_, err := os.Stat(c.Abs(value))
		return err == nil || strings.Contains(value, ".np")
	case "NAME":
		return strings.Contains(value, "@")
	case "TARGET":
		config, err := boardsmithjson.Find(c.Dir)
		return err != nil || len(config.Targets) > 0
	}
	return !IsSwitch(value) // of a file
}

var (
	word       = regexp.MustCompile(`^[0-9A-Za-z]+$`)
	switchWord = regexp.MustCompile(`^(?i:[0-9]+|true|false|yes|no|on|off)$`)
)

// IsSwitch reports whether a value is a number, or a word that switches something on or off.
func IsSwitch(value string) bool { return switchWord.MatchString(value) }

// Variables returns the names of the variables that targets read, sorted.
func Variables() []string { return slices.Sorted(maps.Keys(readers)) }

// Reads reports whether a target reads a variable.
func Reads(target, variable string) bool {
	return slices.Contains(readers[variable], "*") || slices.Contains(readers[variable], target)
}

// findOthers finds the variables with values of other systems. A note names those that the running target would read.
func (c *Console) findOthers() {
	c.others = nil
	for _, name := range shared {
		value := c.Env(name)
		if value == "" || c.isOurs(name, value) {
			continue
		}

		c.others = append(c.others, name)
		if note := name + "=" + value; Reads(c.step, name) && !slices.Contains(c.noted, note) {
			c.Notef("note: %s has no effect: it is no value of boardsmith's %s (docs/command-line.md)", note, name)
			c.noted = append(c.noted, note)
		}
	}
}

// checkNames looks for variables of the environment whose names resemble that of one that the running target reads. It
// returns an error for a typing error in place of one that is not set: it would have no effect. Otherwise it prints a
// note, once, because the environment has other programs' variables, too. Targets of a magefile's own may read other
// variables: with one of them on the command line there are notes only, and what it calls is not checked.
func (c *Console) checkNames() error {
	typed := c.typed()
	if c.environ == nil || !slices.Contains(typed, c.step) {
		return nil
	}

	foreign := slices.ContainsFunc(typed, func(word string) bool { return word != c.step && !isTarget(word) })
	for _, v := range slices.Sorted(slices.Values(c.environ())) {
		name, value, _ := strings.Cut(v, "=")
		if _, ok := readers[name]; ok || value == "" || slices.Contains(c.noted, name) {
			continue
		}

		for _, known := range Variables() {
			switch {
			case !resembles(name, known) || !Reads(c.step, known):
			case c.Env(known) == "" && isTypo(name, known) && !foreign:
				return failure.New(failure.Config, "did you mean "+known+"? Otherwise unset "+name,
					"%s is no variable of %s, which reads %s", name, c.step, known)
			default:
				c.Notef("note: %s resembles %s, and has no effect on %s", name, known, c.step)
				c.noted = append(c.noted, name)
			}
		}
	}
	return nil
}

// isTarget reports whether a target of that name reads any variable but those of all targets.
func isTarget(name string) bool {
	for variable := range readers {
		if slices.Contains(readers[variable], name) {
			return true
		}
	}
	return false
}

// isTypo reports whether a name that resembles a known one is hardly another program's: it lacks a letter, has two in
// the other order, or is the plural of what takes a list.
func isTypo(name, known string) bool {
	plural := known + "S"
	switch {
	case name != strings.ToUpper(name) || len(name) <= short: // which may well be another's
		return false
	case len(name) == len(known):
		a, b := []byte(name), []byte(known)
		slices.Sort(a)
		slices.Sort(b)
		return slices.Equal(a, b)
	}
	return len(name) < len(known) || name == plural && (known == "MODEL" || known == "BOARD")
}

// short is the length of names that other programs use, too, and words of that length that resemble one of ours.
const short = 4

// resembles reports whether a name differs from a known one by the case of letters, or by one letter that is missing,
// added or another, or by two neighbours in the other order. Nothing resembles a short name of ours: too much would. A
// short name that ours begins or ends with is another word, such as MODE.
func resembles(name, known string) bool {
	upper := strings.ToUpper(name)
	if len(known) <= short || len(name) < short {
		return false
	}

	if len(name) == short && (strings.HasPrefix(known, upper) || strings.HasSuffix(known, upper)) {
		return false
	}
	return spelling.Distance(upper, known) <= 1
}
