//go:build !windows

package toolbox

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/targets/internal/console"
)

// fakePython replaces python3 and, through a link, an environment's python. Its venv creates the link first and pip
// last. Its pip creates the package first and its program last, and treats an existing package as installed. STOP
// makes a step fail midway.
const fakePython = `#!/bin/sh
case $2 in
venv)
  for dir do :; done
  [ "$3" = --clear ] && rm -rf "$dir"
  mkdir -p "$dir/bin"
  ln -sf "$FAKE" "$dir/bin/python"
  [ "$STOP" = venv ] && exit 1
  touch "$dir/pip"
  ;;
pip)
  dir=${0%/bin/python}
  [ -e "$dir/pip" ] || { echo 'No module named pip' >&2; exit 1; }
  [ "$3" = install ] || exit 0
  for name do
    case $name in *==*) ;; *) continue ;; esac
    [ -e "$dir/$name" ] && continue
    case " $* " in *" --no-index "*) echo "no $name" >&2; exit 1 ;; esac
    touch "$dir/$name"
    [ "$STOP" = "$name" ] && exit 1
    touch "$dir/bin/${name%%=*}"
  done
  ;;
esac
`

// withFakePython sets an environment in which python3 is fakePython, and returns a console and what it prints.
func withFakePython(t *testing.T) (*console.Console, *bytes.Buffer) {
	t.Helper()
	dir := t.TempDir()
	fake := filepath.Join(dir, "python3")
	testkit.WriteProgram(t, fake, fakePython)
	t.Setenv("FAKE", fake)
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	t.Setenv("BOARDSMITH_HOME", filepath.Join(dir, "home"))
	var printed bytes.Buffer
	return console.New(testkit.Environment(), &printed, &printed), &printed
}

// TestSetupAfterAnInterruption checks that setup repairs the environment that an interrupted setup left, and reinstalls
// what it had to remove.
func TestSetupAfterAnInterruption(t *testing.T) {
	pyocd := Tool{Name: "pyOCD", Python: "pyocd==0.46.0", Command: []string{"pyocd"}}
	west := Tool{Name: "west", Python: "west==1.5.0", Command: []string{"west"}}
	for name, test := range map[string]struct {
		before []Tool // installed without interruption
		stop   string // step at which installing west stops
		spoil  string // a file of the environment that is removed then
	}{
		"undisturbed":                    {before: []Tool{pyocd}},
		"while the environment was made": {stop: "venv"},
		"while a package was installed":  {stop: west.Python},
		"the second package":             {before: []Tool{pyocd}, stop: west.Python},
		"made by another python3":        {before: []Tool{pyocd}, spoil: "pip"},
	} {
		t.Run(name, func(t *testing.T) {
			c, printed := withFakePython(t)
			if test.before != nil {
				if _, err := installPython(t.Context(), c, test.before); err != nil {
					t.Fatalf("%v\n%s", err, printed.String())
				}
			}
			if test.stop != "" {
				t.Setenv("STOP", test.stop)
				if _, err := installPython(t.Context(), c, []Tool{west}); err == nil {
					t.Fatal("setup did not stop")
				}
				t.Setenv("STOP", "")
			}
			if test.spoil != "" {
				env, err := pythonDir()
				testkit.Must(t, err)
				testkit.Must(t, os.Remove(filepath.Join(env, test.spoil)))
			}
			if _, err := installPython(t.Context(), c, []Tool{west}); err != nil {
				t.Fatalf("%v\n%s", err, printed.String())
			}
			for _, want := range append(test.before, west) {
				if _, err := findPythonProgram(want.Command[0]); err != nil {
					t.Errorf("%v\n%s", err, printed.String())
				}
			}
			if made := strings.Count(printed.String(), "-m venv"); name == "undisturbed" && made != 1 {
				t.Errorf("the environment was made %d times:\n%s", made, printed.String())
			}
		})
	}
}

// TestToolOfSeveralPackages: a tool is installed if all its packages are, not its program alone.
func TestToolOfSeveralPackages(t *testing.T) {
	c, _ := withFakePython(t)
	earlier := Tool{Name: "ONNX", Python: "onnx-net==1.0", Command: []string{"onnx-net"}}
	later := Tool{Name: "ONNX", Python: "onnx-net==1.0 lite==2.0", Command: []string{"onnx-net"}}
	for _, step := range []struct {
		installed Tool
		want      bool
	}{{earlier, false}, {later, true}} {
		if _, err := installPython(t.Context(), c, []Tool{step.installed}); err != nil {
			t.Fatal(err)
		}
		env, err := pythonDir()
		testkit.Must(t, err)
		program := filepath.Join(env, "bin", "onnx-net")
		testkit.WriteProgram(t, program, "#!/bin/sh\necho 1.0\n")
		testkit.Must(t, os.Chmod(program, 0o755))
		f := Probe(t.Context(), later)
		if f.Installed != step.want || !f.Installed && !strings.Contains(f.Reason, "lite==2.0") {
			t.Errorf("after %s: installed %v, %s", step.installed.Python, f.Installed, f.Reason)
		}
	}
}
