// This file describes what else than firmware with an RPC server a template makes.

package templatefile

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/templates"
)

// An App is what differs in a template for one value of the option app.
type App struct {
	// Files are shipped files and folders that the folder of firmware gets in place of all others
	Files    []string `json:"files"`
	Runtime  []string `json:"runtime"`              // files and folders of the runtime that the project gets
	Options  []string `json:"options"`              // the board's options that it uses
	Protocol string   `json:"protocol" is:"lines|"` // of the firmware, as in landmarks
}

// ForBoard returns the template, as For does, for a board and a project's options. Errors, of class config: the board
// does not build with it, or brings, or an option is, what the template does not use.
func (t *Template) ForBoard(b *boards.Board, o boards.Options) (*Template, *App, error) {
	if !slices.Contains(b.Templates, t.Name) {
		return nil, nil, failure.New(failure.Config, "choose one of: "+strings.Join(b.Templates, ", "),
			"board %s does not build with template %s", b.Name, t.Name)
	}
	if err := t.Completes(b); err != nil {
		return nil, nil, failure.New(failure.Config, "choose another template", "template %s: %w", t.Name, err)
	}
	if err := t.checkBoard(b); err != nil {
		return nil, nil, err
	}

	// This comes after checkBoard, which checks for all values of the option app.
	settled, app, err := t.For(o.App)
	if err != nil {
		return nil, nil, err
	}
	return settled, app, settled.CheckOptions(o)
}

// For returns the template for a value of the option app, and its App; nil for rpc. Errors have the class config.
func (t *Template) For(app string) (*Template, *App, error) {
	if app == "" || app == boards.RPC {
		return t, nil, nil
	}
	a, ok := t.Apps[app]
	if !ok {
		return nil, nil, failure.New(failure.Config, "choose another template, or leave the option app out",
			"template %s does not make app=%s", t.Name, app)
	}

	settled := *t
	settled.Options, settled.Landmarks.Protocol = a.Options, a.Protocol
	return &settled, &a, nil
}

// TakesRuntime reports whether a project gets a file of the runtime, by its path in crt.
func (a *App) TakesRuntime(name string) bool {
	return slices.ContainsFunc(a.Runtime, func(path string) bool {
		return name == path || strings.HasPrefix(name, path+"/")
	})
}

// Shipped returns the names in templates.FS of the app's files, each by its name in the project's folder of firmware.
func (a *App) Shipped() (map[string]string, error) {
	names := map[string]string{}
	for _, from := range a.Files {
		err := fs.WalkDir(templates.FS, from, func(name string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() {
				// All files of the app go into one folder.
				names[name[strings.LastIndexByte(name, '/')+1:]] = name
			}
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("apps: files: %w", err)
		}
	}
	return names, nil
}

func (t *Template) checkApps() error {
	for _, name := range slices.Sorted(maps.Keys(t.Apps)) {
		a := t.Apps[name]
		if name == boards.RPC || !slices.Contains(t.Options, "app") {
			return fmt.Errorf("apps: %q is no other value of an option app of the template", name)
		}
		if t.Firmware == "" {
			return errors.New("apps: the template names no folder of firmware")
		}
		if !slices.Contains(a.Options, "app") {
			return fmt.Errorf("apps: %s: its options lack app", name)
		}
		if err := checkOptionNames("apps: "+name+": options", a.Options); err != nil {
			return err
		}
		if _, err := a.Shipped(); err != nil {
			return err
		}
	}
	return nil
}
