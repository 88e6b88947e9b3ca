package templatefile

import (
	"testing"

	"github.com/boardsmith/boardsmith/failure"
)

// TestApps chooses what a template makes, and refuses descriptions that do not fit the template.
func TestApps(t *testing.T) {
	t.Parallel()
	bare, err := Find("baremetal", nil)
	must(t, err)
	is, app, err := bare.For("standalone")
	must(t, err)
	if app == nil || is.Landmarks.Protocol != "lines" || len(is.Options) >= len(bare.Options) ||
		!app.TakesRuntime("include/dlpack/dlpack.h") || app.TakesRuntime("src/rpc/server.c") {
		t.Errorf("%+v, %+v", app, is.Options)
	}
	if bare.Landmarks.Protocol != "" {
		t.Error("the template itself was changed")
	}
	for _, rpc := range []string{"", "rpc"} {
		if is, app, err := bare.For(rpc); is != bare || app != nil || err != nil {
			t.Errorf("%q: %v, %v", rpc, app, err)
		}
	}
	if _, _, err := bare.For("other"); failure.Of(err) != failure.Config || failure.Next(err) == "" {
		t.Errorf("got %v", err)
	}
	good := bare.Apps["standalone"]
	must(t, bare.checkApps())
	for name, change := range map[string]func(*Template, *App, *string){
		"named rpc":              func(_ *Template, _ *App, name *string) { *name = "rpc" },
		"no option app":          func(t *Template, _ *App, _ *string) { t.Options = []string{"stack_bytes"} },
		"no folder of firmware":  func(t *Template, _ *App, _ *string) { t.Firmware = "" },
		"its options lack app":   func(_ *Template, a *App, _ *string) { a.Options = nil },
		"a file that is missing": func(_ *Template, a *App, _ *string) { a.Files = []string{"firmware/nothing.c"} },
		"a file that is outside": func(_ *Template, a *App, _ *string) { a.Files = []string{"../go.mod"} },
	} {
		bad, a, named := *bare, good, "standalone"
		change(&bad, &a, &named)
		bad.Apps = map[string]App{named: a}
		if bad.checkApps() == nil {
			t.Errorf("%s: taken", name)
		}
	}
}
