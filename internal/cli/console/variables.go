// This file is the list of the variables that targets read, and compares the environment with it.

package console

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/boardsmithjson"
	"github.com/boardsmith/boardsmith/internal/spelling"
)

// projectTargets are those that work on a project.
const projectTargets = " generate build flash run call size validate measure release debug clean tune report "

// readers lists the variables that targets read, with these targets: names, @project for projectTargets, * for all. To
// other targets the variable is not set (Console.Do). docs/command-line.md and CONTRIBUTING.md explain the variables.
var readers = map[string]string{
	"BOARD": "@project erase monitor devices wear doctor setup embed serve reproduce board:accept template:check " +
		"template:export emulated:up emulated:down emulated:erase emulated:swap",
	"MODEL":       "@project embed erase monitor",
	"MODEL_NAME":  "@project embed erase monitor",
	"APP":         "@project erase monitor",
	"OPTIONS":     "@project embed serve board:accept",
	"PLACE":       "@project serve",
	"LIBRARIES":   "@project embed serve",
	"TEMPLATE":    "@project serve board:svd board:accept template:export",
	"FIXED_INPUT": "generate build flash run size release debug report",
	"PARAMS":      "embed build size release",
	"PROJECT":     "@project erase monitor",
	"TARGET": "@project erase monitor devices wear serve reproduce board:accept emulated:up emulated:down " +
		"emulated:erase emulated:swap",
	"DEVICE": "@project erase monitor devices wear serve reproduce board:accept emulated:up emulated:down " +
		"emulated:erase emulated:swap",
	"PROGRAMMER": "flash erase run call validate measure debug monitor devices tune serve reproduce board:accept",
	"IMAGE":      "flash run call validate debug",
	"LOAD":       "demo validate run",
	"WAIT":       "flash erase run call validate measure debug monitor tune serve reproduce board:accept",
	"TRACE":      "run call validate measure monitor",
	"INPUT":      "run validate measure tune",
	"OUTPUT":     "build run call monitor validate measure release tune serve report board:accept",
	"REPEAT":     "run measure tune",
	"SEED":       "run measure tune test test:full test:soak",
	"TIMEOUT":    "run call validate measure tune serve reproduce flash monitor debug board:accept",
	"FORCE": "generate build clean flash erase release run call validate measure debug monitor tune serve reproduce " +
		"board:accept",
	"DRYRUN": "generate build flash erase run call validate measure release tune report reproduce debug " +
		"serve template:export template:new template:check board:new board:accept model:new schemas " +
		"embed clean setup update",
	"JSON":              "*",
	"VERBOSE":           "*",
	"TERM":              "*",
	"FRESH":             "build",
	"BAUD":              "monitor",
	"RESET":             "monitor",
	"TIMESTAMPS":        "monitor",
	"LOG":               "monitor",
	"ATTACH":            "debug",
	"SERVE":             "debug",
	"EXPECT":            "tune measure validate",
	"LABELS":            "measure validate",
	"COMPARE":           "measure validate",
	"ACCURACY":          "measure validate",
	"PRODUCT":           "release",
	"VERSION":           "release",
	"BASELINE":          "report measure",
	"LIMITS":            "measure",
	"UPDATE":            "measure",
	"STRICT":            "measure",
	"CURRENT":           "measure",
	"PIN":               "measure",
	"VOLTS":             "measure",
	"SPACE":             "tune",
	"CANDIDATES":        "tune",
	"PROPOSER":          "tune",
	"TRIALS":            "tune",
	"CONFIRM":           "tune",
	"RETRY":             "tune",
	"TRACKER":           "tune serve",
	"KEY":               "tune serve",
	"PRIORITY":          "tune",
	"LISTEN":            "serve",
	"ALLOW":             "serve",
	"RUN":               "report reproduce",
	"ID":                "reproduce",
	"CSV":               "report measure",
	"FROM":              "board:new model:new template:new",
	"SVD":               "board:svd",
	"EXCEPT":            "board:svd",
	"SHORT":             "board:accept",
	"BY":                "board:accept",
	"SAVE":              "devices",
	"NAME":              "update",
	"CHECK":             "setup test test:full test:soak",
	"BOARDSMITH_PATH":   "*",
	"BOARDSMITH_LEDGER": "*",
	"CACHE_MIB":         "*",
	"FUNC":              "call",
	"ARGS":              "call",
	"FUZZTIME":          "test:full test:soak",
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

// Readers returns the targets that read a variable, in the order of the list.
func Readers(variable string) []string {
	return strings.Fields(strings.Replace(readers[variable], "@project", projectTargets, 1))
}

// Reads reports whether a target reads a variable.
func Reads(target, variable string) bool {
	return readers[variable] == "*" || slices.Contains(Readers(variable), target)
}

// withoutOthers returns an environment without values of other systems. A note names those that the running target
// would read.
func (c *Console) withoutOthers(env Environ) Environ {
	others := map[string]bool{}
	for _, name := range shared {
		value := env(name)
		if value == "" || c.isOurs(name, value) {
			continue
		}

		others[name] = true
		if note := name + "=" + value; Reads(c.step, name) && !slices.Contains(c.noted, note) {
			c.Notef("note: %s has no effect: it is no value of boardsmith's %s (docs/command-line.md)", note, name)
			c.noted = append(c.noted, note)
		}
	}

	return func(name string) string {
		if others[name] {
			return ""
		}
		return env(name)
	}
}

// limited returns an environment in which our variables that the running target does not read are not set. Those of
// other programs are.
func (c *Console) limited(env Environ) Environ {
	return func(name string) string {
		if _, ours := readers[name]; ours && !Reads(c.step, name) {
			return ""
		}
		return env(name)
	}
}

// Inputs returns the variables that the running target reads, and their values.
func (c *Console) Inputs() map[string]string {
	values := map[string]string{}
	for name := range readers {
		if Reads(c.step, name) {
			values[name] = c.Env(name)
		}
	}
	return values
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
		if slices.Contains(Readers(variable), name) {
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
