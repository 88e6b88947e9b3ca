//go:build !windows

package targets

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fakePython is python3 and, by a link to it, an environment's python. Its venv makes the link first and pip last; its pip
// puts the package down first and the program that shows it last, and takes a package for installed that was put down. Each
// stops midway where STOP says so.
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
    touch "$dir/$name"
    [ "$STOP" = "$name" ] && exit 1
    touch "$dir/bin/${name%%=*}"
  done
  ;;
esac
`

// TestSetupAfterAnInterruption: whatever an earlier setup left half-made, the next one mends, and what it has to throw
// away for that it installs again.
func TestSetupAfterAnInterruption(t *testing.T) {
	pyocd := tool{name: "pyOCD", python: "pyocd==0.46.0", command: []string{"pyocd"}}
	west := tool{name: "west", python: "west==1.5.0", command: []string{"west"}}
	for name, c := range map[string]struct {
		before []tool // installed undisturbed
		stop   string // where installing west stops
		spoil  string // a file of the environment that goes away then
	}{
		"undisturbed":                    {before: []tool{pyocd}},
		"while the environment was made": {stop: "venv"},
		"while a package was installed":  {stop: west.python},
		"the second package":             {before: []tool{pyocd}, stop: west.python},
		"made by another python3":        {before: []tool{pyocd}, spoil: "pip"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			fake := filepath.Join(dir, "python3")
			if err := os.WriteFile(fake, []byte(fakePython), 0o755); err != nil {
				t.Fatal(err)
			}
			t.Setenv("FAKE", fake)
			t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
			t.Setenv("BOARDSMITH_HOME", filepath.Join(dir, "home"))
			s, said := quietSession()
			if c.before != nil {
				if _, err := s.installPython(t.Context(), c.before); err != nil {
					t.Fatalf("%v\n%s", err, said)
				}
			}
			if c.stop != "" {
				t.Setenv("STOP", c.stop)
				if _, err := s.installPython(t.Context(), []tool{west}); err == nil {
					t.Fatal("nothing stopped it")
				}
				t.Setenv("STOP", "")
			}
			if c.spoil != "" {
				env, err := pythonDir()
				if err != nil {
					t.Fatal(err)
				}
				if err := os.Remove(filepath.Join(env, c.spoil)); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := s.installPython(t.Context(), []tool{west}); err != nil {
				t.Fatalf("%v\n%s", err, said)
			}
			for _, want := range append(c.before, west) {
				if _, err := findPythonProgram(want.command[0]); err != nil {
					t.Errorf("%v\n%s", err, said)
				}
			}
			if made := strings.Count(said.String(), "-m venv"); name == "undisturbed" && made != 1 {
				t.Errorf("the environment was made %d times:\n%s", made, said)
			}
		})
	}
}
