package boards

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/files/jsonfile"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/boardstest"
)

var (
	must      = testkit.Must
	wantError = testkit.WantError
)

// TestEveryParentLoads also reads chip and cpu files that no board uses.
func TestEveryParentLoads(t *testing.T) {
	for _, level := range []string{"chip", "cpu"} {
		files, err := filepath.Glob(filepath.Join(level, "*.json"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no files in %s: %v", level, err)
		}
		for _, f := range files {
			b := &Board{Origin: map[string]Origin{}}
			if err := b.load(shelves(nil), level, strings.TrimSuffix(filepath.Base(f), ".json"), nil); err != nil {
				t.Error(err)
				continue
			}
			if b.Doc == "" || strings.Contains(b.Doc, "\n") || b.Origin["doc"].File != "boards/"+filepath.ToSlash(f) {
				t.Errorf("%s: doc %q is not one line of its own", f, b.Doc)
			}
			if b.Toolchain.Install == "" {
				t.Errorf("%s: no install command for %s", f, b.Toolchain.CC)
			}
			must(t, errors.Join(b.checkDefines(), b.checkMemory()))
		}
	}
}

// TestShippedBoards checks what the loader does not require of every board.
func TestShippedBoards(t *testing.T) {
	for _, n := range List(nil) {
		b, err := Find(n, nil)
		if err != nil {
			t.Error(err)
			continue
		}
		if b.Doc == "" || strings.Contains(b.Doc, "\n") || b.BudgetMS == 0 {
			t.Errorf("%s: doc %q is not one line, or there is no time budget", n, b.Doc)
		}
		for _, s := range b.Sources {
			if _, err := os.Stat(filepath.Join("..", "templates", b.Templates[0], filepath.FromSlash(s.Name))); err != nil {
				t.Errorf("%s: source: %v", n, err)
			}
		}
		if len(b.Memory) == 0 {
			continue // a process
		}
		if b.CoreHz == 0 || b.StackBytes == 0 || b.Timer.Kind == "" || b.ELF.Machine == "" || b.ELF.Arch == "" {
			t.Errorf("%s: core_hz %d, stack_bytes %d, timer %q, elf %v", n, b.CoreHz, b.StackBytes, b.Timer.Kind, b.ELF)
		}
		if (b.Link.Kind == "qemu") != !b.KeepsHostTime() {
			t.Errorf("%s: apart from the host's time: %v, with a link of kind %s", n, !b.KeepsHostTime(), b.Link.Kind)
		}
		if b.Link.Kind == "qemu" && b.Link.Install == "" {
			t.Errorf("%s: no install command for %s", n, b.Link.Program)
		}
		if b.Flash.Programmer != "none" && b.Identification.Address == 0 {
			t.Errorf("%s: no identification register", n)
		}
		if !b.KeepsHostTime() {
			continue
		}
		code, _ := b.Region(b.Place.Code)
		if !code.Nonvolatile || len(code.Sectors) == 0 || code.EraseCycles == 0 {
			t.Errorf("%s: code in region %+v without sectors or rated erases", n, code)
		}
		if b.Link.USB == "" || b.Flash.Programmer == "none" || b.Platform == (platform{}) {
			t.Errorf("%s: link %+v, flash %+v, platform %+v", n, b.Link, b.Flash, b.Platform)
		}
	}
}

// TestPageFields: docs/board.md names the fields that a chip's file leaves to its boards.
func TestPageFields(t *testing.T) {
	page := testkit.ReadFile(t, "../docs/board.md")
	names, err := fs.Glob(shipped, "chip/*.json")
	must(t, err)
	for _, name := range names {
		text, err := fs.ReadFile(shipped, name)
		must(t, err)
		var chip map[string]any
		must(t, json.Unmarshal(text, &chip))
		row := regexp.MustCompile("(?m)^\\| .*`" + strings.TrimSuffix(name, ".json") + "`.*$").FindString(string(page))
		for _, field := range []string{"memory", "place", "core_hz"} {
			if chip[field] == nil && !strings.Contains(row, "`"+field+"`") {
				t.Errorf("%s lacks %s, and its row on the page does not name it: %s", name, field, row)
			}
		}
	}
}

func TestThreeLevels(t *testing.T) {
	dir := boardstest.Shelf(t, map[string]string{
		"cpu/c.json": `{"cflags": ["-mcpu=c"], "toolchain": {"cc": "ccc", "ar": "car", "install": "apt"}, "arena_kib": 1, "packet_bytes": 512,
			"registry_bytes": 512, "log_level": "warn", "runtime_opt": "Os", "operator_opt": "O2", "templates": ["t", "u"],
			"elf": {"machine": "arm", "class": 32}}`,
		"chip/h.json": `{"inherits": "cpu/c", "cflags": ["-DH"], "sources": ["port/h.c"],
			"memory": [{"name": "rom", "exec": true, "size": 131072}, {"name": "ram", "origin": "0x20000000", "size": 131072}],
			"place": {"code": "rom", "data": "ram"}}`,
		"b.json": `{"doc": "b", "inherits": "chip/h", "cflags": ["-DB"], "sources": ["mine.c"], "toolchain": {"cc": "bcc"},
			"templates": ["v"], "arena_kib": 64, "link": {"kind": "process"}, "flash": {"programmer": "none"}}`,
	})
	b, err := Find("b", []string{dir})
	must(t, err)
	if !slices.Equal(b.CFlags, []string{"-mcpu=c", "-DH", "-DB"}) || !slices.Equal(b.Templates, []string{"v"}) ||
		b.Toolchain.CC != "bcc" || b.Toolchain.Install != "apt" { // a child changes only what it names
		t.Errorf("cflags %q, templates %q, toolchain %+v", b.CFlags, b.Templates, b.Toolchain)
	}
	if len(b.Sources) != 2 || b.Sources[0].Dir != filepath.Join(dir, "boards", "chip") ||
		b.Sources[1].Dir != filepath.Join(dir, "boards") {
		t.Errorf("sources %+v", b.Sources)
	}
	if r, ok := b.Region("ram"); !ok || r.Origin != 0x20000000 {
		t.Errorf("ram %+v", r)
	}
	_, err = b.Settle(Options{ArenaKiB: 129})
	if failure.Of(err) != failure.DoesNotFit || strings.Contains(err.Error(), ".json") {
		t.Errorf("an arena larger than RAM: %v", err)
	}
	for _, kib := range []int{3, 4} { // no power of two; no region to run code from
		_, err := b.Settle(Options{UploadKiB: kib})
		wantError(t, err, failure.Config, "place.upload")
	}
	if b.SetByUser("doc") != true || b.SetByUser("flash") != true || b.SetByUser("fla") || b.SetByUser("memory") {
		t.Errorf("origins %v", b.Origin)
	}
	read := *b // as read from a project, without origins
	read.Files, read.Origin = nil, nil
	_, err = read.Settle(Options{ArenaKiB: 129})
	wantError(t, err, failure.DoesNotFit)
}

func TestBadFiles(t *testing.T) {
	const rest = `"inherits": "cpu/native", "templates": ["baremetal"], "link": {"kind": "process"}, "flash": {"programmer": "none"}`
	for _, c := range []struct{ name, text, want string }{
		{
			"unknown field", "{" + rest + ",\n\n\"arena_kb\": 3}",
			`x.json:3: field "arena_kb" is not known; did you mean "arena_kib"?`,
		},
		{
			"unknown field of a region", "{" + rest + ",\n\"memory\": [{\"nam\": \"arm\"}]}",
			`x.json:2: field "memory[0].nam" is not known; did you mean "memory[0].name"?`,
		},
		{"other case", "{" + rest + ",\n\"Doc\": \"\"}", `x.json:2: field "Doc" is not known; did you mean "doc"?`},
		{"given twice", "{" + rest + ",\n\"doc\": \"\",\n\"doc\": \"\"}", `x.json:3: "doc" is given twice`},
		{
			"wrong type of a list of words", "{" + rest + ",\n\"doc\": \"a\",\n\"post_link\": \"a\"}",
			`x.json:3: post_link: a text, where a list belongs`,
		},
		{
			"wrong type of a source", "{" + rest + ",\n\"doc\": \"a\",\n\"startup\": 3}",
			`x.json:3: startup: a number, where a text belongs`,
		},
		{
			"no parent", "{\n\"link\": {\"kind\": \"process\"}}",
			`x.json:1: inherits: missing, and there is no templates either: a board inherits from chip/NAME or cpu/NAME or`,
		},
		{
			"init of another's memory", "{" + rest + ",\n\"memory\": [\n" +
				`{"name": "a", "size": 1024, "reserved": true, "init": "f"}]}`,
			`x.json:3: memory: region "a" is reserved: init has no effect`,
		},
		{
			"programmer of another's memory", "{" + rest + ",\n\"memory\": [\n" + `{"name": "a", "size": 1024, ` +
				`"nonvolatile": true, "sectors": [{"count": 1, "size": 1024}], "reserved": true, "programmer": "openocd"}]}`,
			`x.json:3: memory: region "a" is reserved: programmer has no effect`,
		},
		{
			"nothing to verify", "{" + rest + ",\n\"memory\": [\n" + `{"name": "a", "size": 1024, ` +
				`"nonvolatile": true, "sectors": [{"count": 1, "size": 1024}], "verify": "firmware"}]}`,
			`x.json:3: memory[0].verify: it is only for programmer`,
		},
		{"wrong type", "{" + rest + ",\n\"doc\": 3}", `x.json:2: doc: a number, where a text belongs`},
		{"syntax", "{" + rest + ",\n\"doc\": }", `x.json:2: invalid character`},
		{"cut off", "{" + rest + ",\n\"doc\": \"a\"\n", `x.json:3: the file is truncated`},
		{
			"unknown parent", "{\n\"inherits\": \"cpu/nativ\"}",
			`x.json:2: inherits "cpu/nativ", which is not known; did you mean "cpu/native"?`,
		},
		{
			"a board as parent", "{\n\"inherits\": \"host\"}",
			`x.json:2: inherits "host": a board inherits from chip/NAME or cpu/NAME or family/NAME`,
		},
		{"parent climbs", "{\n\"inherits\": \"cpu/../host\"}", `x.json:2: inherits "cpu/../host": a board`},
		{"cycle", "{\n\"inherits\": \"chip/loop\"}", `loop.json:1: inherits "chip/loop": a chip inherits from cpu/NAME`},
		{
			"link", `{"inherits": "cpu/native", "templates": ["baremetal"], "flash": {"programmer": "none"}, ` +
				`"memory": [{"name": "a", "size": 4096}],` + "\n" + `"link": {"kind": "proces"}}`,
			`x.json:2: link.kind: "proces" is none of process, qemu, serial, tcp, rtt; did you mean "process"?`,
		},
		{
			"no arena", "{\"inherits\": \"cpu/cortex-m3\",\n" +
				"\"link\": {\"kind\": \"serial\", \"usb\": \"0483:374b\"}, \"flash\": {\"programmer\": \"none\"}}",
			`x.json:1: arena_kib, memory, place.code, place.data: missing`,
		},
		{
			"no description of objects", `{"templates": ["own"], "link": {"kind": "serial", "usb": "0483:374b"}, ` +
				`"toolchain": {"cc": "gcc", "ar": "ar"}, "arena_kib": 4}`,
			`x.json:1: elf.class, elf.machine, flash.programmer, memory, place.code, place.data: missing`,
		},
		{"source climbs", "{" + rest + ",\n\"sources\": [\"../x.c\"]}", `x.json:2: sources[0]: "../x.c" is not a relative path`},
		{"option out of range", "{" + rest + ",\n\"arena_kib\": 0}", `x.json:2: arena_kib: 0 is not between`},
		{
			"defines are flat", "{" + rest + ",\n\"defines\": {\"A\": {\"B\": \"\"}}}",
			`x.json:2: defines: an object, where a text belongs`,
		},
		{
			"place without memory", "{" + rest + ",\n\"place\": {\"data\": \"ram\"}}",
			`x.json:2: place.data: there is no region "ram"`,
		},
		{
			"code in no program memory", "{" + rest +
				",\n\"place\": {\"code\": \"ram\", \"data\": \"ram\"}, \"memory\": [{\"name\": \"ram\", \"size\": 65536}]}",
			`x.json:2: place.code: code cannot run from region "ram"`,
		},
		{"data in flash", "{" + rest +
			",\n\"place\": {\"code\": \"rom\", \"data\": \"rom\"}, \"memory\": [{\"name\": \"rom\", \"size\": 65536, " +
			"\"exec\": true, \"nonvolatile\": true}]}", `x.json:2: place.data: region "rom" cannot be written to`},
		{
			"sectors too small", "{" + rest +
				",\n\"memory\": [{\"name\": \"a\", \"size\": 4096, \"nonvolatile\": true, " +
				"\"sectors\": [{\"count\": 3, \"size\": 1024}]}]}",
			`x.json:2: memory: region "a": its sectors add up to 3072 bytes, not to 4096`,
		},
		{
			"sectors too large", "{" + rest +
				",\n\"memory\": [{\"name\": \"a\", \"size\": 4096, \"nonvolatile\": true, " +
				"\"sectors\": [{\"count\": 3, \"size\": 2048}]}]}",
			`x.json:2: memory: region "a": its sectors are larger than its 4096 bytes`,
		},
		{
			"sectors without size", "{" + rest +
				",\n\"memory\": [{\"name\": \"a\", \"size\": 4096, \"nonvolatile\": true, " +
				"\"sectors\": [{\"count\": 3}]}]}",
			`x.json:2: memory[0].sectors[0].size: missing`,
		},
		{
			"two of a name", "{" + rest +
				",\n\"memory\": [{\"name\": \"a\", \"size\": 8},\n{\"name\": \"a\", \"origin\": 8, \"size\": 8}]}",
			`x.json:3: memory: "a" is there twice`,
		},
		{
			"negative number", "{" + rest + ",\n\"memory\": [{\"name\": \"a\", \"size\": -4}]}",
			`x.json:2: memory.size: -4, where a whole number without a sign belongs`,
		},
		{
			"unknown programmer", `{"inherits": "cpu/native", "templates": ["baremetal"], "link": {"kind": "process"},` + "\n" +
				`"flash": {"programmer": "openodc", "scripts": ["a"]}}`,
			`x.json:2: flash.programmer: "openodc" is no programmer; did you mean "openocd"?`,
		},
		{"programmer without scripts", `{"inherits": "cpu/native", "templates": ["baremetal"], "link": {"kind": "process"},` +
			"\n" + `"flash": {"programmer": "openocd"}}`, `x.json:2: flash: the programmer openocd needs scripts`},
		{"programmer without a chip", `{"inherits": "cpu/native", "templates": ["baremetal"], "link": {"kind": "process"},` +
			"\n" + `"flash": {"programmer": "pyocd"}}`, `x.json:2: flash: the programmer pyocd needs chip`},
		{
			"identification without source",
			"{" + rest + ",\n\"identification\": {\"address\": 4, \"mask\": 1, \"values\": [1]}}",
			`x.json:2: identification.mask: it needs source`,
		},
		{
			"identification beyond its mask",
			"{" + rest + ",\n\"identification\": {\"address\": 4, \"mask\": 6, \"values\": [1], \"source\": \"s\"}}",
			`x.json:2: identification.values: 0x1 has bits that the mask 0x6 leaves out`,
		},
		{
			"emulator without program", `{"inherits": "cpu/native", "templates": ["baremetal"],` + "\n" +
				`"link": {"kind": "qemu"}, "flash": {"programmer": "none"}}`,
			`x.json:2: link.program: missing`,
		},
		{
			"adapter's name", `{"inherits": "cpu/native", "templates": ["baremetal"],` + "\n" +
				`"link": {"kind": "serial", "usb": "ST-Link"}, "flash": {"programmer": "none"}}`,
			`x.json:2: link.usb: "ST-Link" is not vendor:product`,
		},
		{
			"emulator's version", `{"inherits": "cpu/native", "templates": ["baremetal"], "flash": {"programmer": "none"},` +
				"\n" + `"link": {"kind": "qemu", "program": "q", "args": ["m"], "min_version": "QEMU 9"}}`,
			`x.json:2: link.min_version: "QEMU 9" is not a version, as in 9.1`,
		},
		{
			"version of a UART", `{"inherits": "cpu/native", "templates": ["baremetal"], "flash": {"programmer": "none"},` +
				"\n" + `"link": {"kind": "serial", "min_version": "9.1"}}`,
			`x.json:2: link.min_version: it is only for kind=qemu`,
		},
		{"port that is none", `{"inherits": "cpu/native", "templates": ["baremetal"], "flash": {"programmer": "none"},` +
			"\n" + `"link": {"kind": "tcp", "address": "bridge:70000"}}`, `"bridge:70000" is not host:port`},
		{"RTT without its programmer", `{"inherits": "cpu/native", "templates": ["baremetal"], "link": {"kind": "rtt"},` + "\n" + `"flash": {"programmer": "pyocd", "chip": "x", "usb": "0483:374b"}}`, `x.json:2: flash.programmer: a link of kind rtt needs openocd`},
		{"RTT without its probe", `{"inherits": "cpu/native", "templates": ["baremetal"], "link": {"kind": "rtt"},` + "\n" + `"flash": {"programmer": "openocd", "scripts": ["a"]}}`, `x.json:2: flash: with a link of kind rtt, openocd needs usb, vendor`},
		{
			"regions overlap", "{" + rest +
				",\n\"memory\": [{\"name\": \"a\", \"size\": 16}, {\"name\": \"b\", \"origin\": 8, \"size\": 8}]}",
			`x.json:2: memory: regions "a" and "b" overlap`,
		},
		{
			"region wraps", "{" + rest +
				",\n\"memory\": [{\"name\": \"a\", \"origin\": \"0xfffffffffffffff8\", \"size\": 16}]}", `x.json:2: memory: region "a" wraps`,
		},
	} {
		dir := boardstest.Shelf(t, map[string]string{
			"x.json": c.text, "chip/loop.json": `{"inherits": "chip/loop"}`,
		})
		_, err := Find("x", []string{dir})
		wantError(t, err, failure.Config, c.want)
		if !errors.As(err, new(*jsonfile.Error)) {
			t.Errorf("got %v", err)
		}
	}
}

func TestUnknownBoard(t *testing.T) {
	for name, text := range map[string]string{
		"hots": `did you mean "host"?`, "": "", "..": "", "a b": "", "no/such.json": "", "cpu/native": "",
	} {
		_, err := Find(name, nil)
		wantError(t, err, failure.Config, text)
	}
}

func TestOperatorFlags(t *testing.T) {
	o, err := ParseOptions([]string{
		"operator_flags=-O3,lib1.c:-Os,-funroll-loops,lib1.c:--param=max-unroll-times=16,lib2.c:-O1",
	})
	must(t, err)
	for file, want := range map[string]string{
		"": "-O3 -funroll-loops", "lib0.c": "-O3 -funroll-loops", "lib2.c": "-O3 -funroll-loops -O1",
		"lib1.c": "-O3 -funroll-loops -Os --param=max-unroll-times=16",
	} {
		testkit.Equal(t, file, strings.Join(o.OperatorFlagsOf(file), " "), want)
	}
	testkit.Equal(t, "files", o.OperatorFiles(), []string{"lib1.c", "lib2.c"})
	o.StackBytes, o.App = 512, Standalone
	words := o.Words()
	if again, err := ParseOptions(words); err != nil || again != o || len(words) != 3 {
		t.Errorf("%v: %+v, %v", words, again, err)
	}
}

func TestOptions(t *testing.T) {
	b, err := Find("host", nil)
	must(t, err)
	o, err := ParseOptions([]string{"arena_kib=64", "packet_bytes=1024", "log_level=warn"})
	must(t, err)
	full, err := b.Settle(o)
	want := Options{
		ArenaKiB: 64, PacketBytes: 1024, RegistryBytes: 512, LogLevel: "warn", RuntimeOpt: "Og",
		OperatorOpt: "O2", GraphExecutor: onDevice, App: RPC,
	}
	if err != nil || full != want {
		t.Fatalf("got %+v, %v; want %+v", full, err, want)
	}
	for _, c := range []struct{ word, want string }{
		{"arena=3", `option "arena" is not known; did you mean "arena_kib"?`},
		{"arena_kib", "not written as name=value"},
		{"arena_kib=x", "not a whole number of KiB"},
		{"arena_kib=0", "not between"},
		{"upload_kib=0", "has no effect: the board's own value holds"},
		{"log_level=loud", `"loud" is none of`},
		{"operator_flags=-O3,", `"" is neither -O`},
		{"operator_flags=-fplugin=/tmp/x.so", "is neither -O"},
		{"operator_flags=-fx$(shell,id)", "is neither -O"},
		{"operator_flags=-mfloat-abi=soft", "is neither -O"},
		{"operator_flags=../lib1.c:-O3", "is neither -O"},
	} {
		_, err := ParseOptions([]string{c.word})
		wantError(t, err, failure.Config, c.want)
	}
	if _, err := ParseOptions([]string{"arena_kib=1", "arena_kib=2"}); err == nil {
		t.Error("an option given twice was accepted")
	}
}

// TestHiddenBoard: a user's board of a shipped one's name is an error, by name and by path, unless its file allows it.
func TestHiddenBoard(t *testing.T) {
	text := string(testkit.ReadFile(t, "host.json"))
	shelf := boardstest.Shelf(t, map[string]string{"host.json": text, "mine.json": text})
	file := filepath.Join(shelf, "boards", "host.json")
	for _, name := range []string{"host", file} {
		_, err := Find(name, []string{shelf})
		wantError(t, err, failure.Config, file, `"replaces": true`)
	}
	if b, err := Find("mine", []string{shelf}); err != nil || b.Dir != filepath.Join(shelf, "boards") {
		t.Errorf("a name of its own: %+v, %v", b, err)
	}
	testkit.EditFile(t, file, `"inherits"`, `"replaces": true, "inherits"`)
	if b, err := Find("host", []string{shelf}); err != nil || b.Dir == "" {
		t.Errorf("one that replaces it: %+v, %v", b, err)
	}
}

// TestInheritsBoard: what cannot be inherited can be copied.
func TestInheritsBoard(t *testing.T) {
	dir := boardstest.Shelf(t, map[string]string{"x.json": `{"inherits": "lm3s6965evb"}`})
	_, err := Find("x", []string{dir})
	wantError(t, err, failure.Config, "board:new")
}

// TestHostTime: the time of an emulator that counts instructions is not the host's, unless the board's file says so.
func TestHostTime(t *testing.T) {
	on, off := true, false
	for _, c := range []struct {
		kind string
		set  *bool
		want bool
	}{
		{"qemu", nil, false},
		{"qemu", &on, true},
		{"serial", nil, true},
		{"serial", &off, false},
	} {
		testkit.Equal(t, c, (&Board{Link: Link{Kind: c.kind}, HostClock: c.set}).KeepsHostTime(), c.want)
	}
}
