module github.com/boardsmith/boardsmith

go 1.26.0

tool github.com/magefile/mage

require (
	// the bill of materials of a release, by the authors of the format, without further modules in a program; instead
	// of structs of our own for a format with new versions each year
	github.com/CycloneDX/cyclonedx-go v0.12.0
	// named, levelled logs with facts as pairs, device logs too; log/slog has no named sub-loggers
	github.com/hashicorp/go-hclog v1.6.3
	// the distance of two names, for "did you mean"; instead of a table of our own
	github.com/hbollon/go-edlib v1.7.0
	// the command line, run as `go tool mage` without an install step; instead of flags of our own
	github.com/magefile/mage v1.17.2
	// atomic file writes; instead of temporary file, fsync and rename in six places
	github.com/moby/sys/atomicwriter v0.1.0
	// copying trees from embed.FS and from disk; instead of a tree walk of our own
	github.com/otiai10/copy v1.14.1
	// testscript, which runs the command line as typed
	github.com/rogpeppe/go-internal v1.16.0
	// reading `.npy` headers; instead of a parser of Python literals
	github.com/sbinet/npyio v0.6.0
	// process groups, signals, options of sockets
	golang.org/x/sys v0.49.0
	// whether stderr is a terminal
	golang.org/x/term v0.47.0
	// charts of tuning runs as SVG, so that the page has no script; only tune/report imports it. BSD licence, released
	// regularly, scales by logarithms, errors instead of endless loops for odd numbers. Price: fonts in the targets'
	// program, and 8 more modules. Instead of wcharczuk/go-chart, half the size, but archived, with a known endless
	// loop, and texts unescaped; and of go-echarts and other JavaScript, which loads or embeds a megabyte of script
	gonum.org/v1/plot v0.17.0
)

require (
	// the file systems that go-git takes
	github.com/go-git/go-billy/v5 v5.9.2
	// git repositories at a revision, for templates, boards and libraries; only internal/gitfolder imports it. It
	// fetches into a folder that is watched, and names are checked before a file is written. The program `git` is not
	// installed everywhere, and checks out what it gets. Price: 5 MB in the targets' program, and 20 more modules
	github.com/go-git/go-git/v5 v5.19.3
	// tests: making the schemas of package schemas from Go types, and checking files against them; no modules of its
	// own. invopop/jsonschema needs a second library for checking
	github.com/google/jsonschema-go v0.4.3
	// package URLs in a bill of materials: escaping and normal forms per type; no modules of its own
	github.com/package-url/packageurl-go v0.1.7
	// serial ports, and the USB device of each, on every system; instead of three drivers of our own
	go.bug.st/serial v1.8.0
)

require (
	dario.cat/mergo v1.0.0 // indirect
	github.com/Microsoft/go-winio v0.6.2 // indirect
	github.com/ProtonMail/go-crypto v1.1.6 // indirect
	github.com/cloudflare/circl v1.6.3 // indirect
	github.com/cyphar/filepath-securejoin v0.6.1 // indirect
	github.com/emirpasic/gods v1.18.1 // indirect
	github.com/go-git/gcfg v1.5.1-0.20230307220236-3a3c6141e376 // indirect
	github.com/golang/groupcache v0.0.0-20241129210726-2c02b8208cf8 // indirect
	github.com/jbenet/go-context v0.0.0-20150711004518-d14ea06fba99 // indirect
	github.com/kevinburke/ssh_config v1.2.0 // indirect
	github.com/pjbgf/sha1cd v0.7.0 // indirect
	github.com/sergi/go-diff v1.3.2-0.20230802210424-5b0b94c5c0d3 // indirect
	github.com/skeema/knownhosts v1.3.1 // indirect
	github.com/xanzy/ssh-agent v0.3.3 // indirect
	golang.org/x/crypto v0.56.0 // indirect
	golang.org/x/net v0.57.0 // indirect
	gopkg.in/warnings.v0 v0.1.2 // indirect
)

require (
	codeberg.org/go-fonts/liberation v0.5.0 // indirect
	codeberg.org/go-latex/latex v0.2.0 // indirect
	codeberg.org/go-pdf/fpdf v0.11.1 // indirect
	git.sr.ht/~sbinet/gg v0.7.0 // indirect
	github.com/ajstarks/svgo v0.0.0-20211024235047-1546f124cd8b // indirect
	// the terminals of an emulated board's probe and UART; instead of ioctls per system
	github.com/creack/pty v1.1.24
	github.com/fatih/color v1.13.0 // indirect
	github.com/golang/freetype v0.0.0-20170609003504-e2365dfdc4a0 // indirect
	github.com/mattn/go-colorable v0.1.12 // indirect
	github.com/mattn/go-isatty v0.0.22 // indirect
	github.com/moby/sys/sequential v0.6.0 // indirect
	github.com/otiai10/mint v1.6.3 // indirect
	// reading `runners.yaml`, the flash settings of a Zephyr build; MIT and Apache licences, maintained by the YAML
	// organization, no modules of its own in a program. A parser of our own would have to know quotes, nested lists
	// and damaged files
	go.yaml.in/yaml/v3 v3.0.5
	golang.org/x/image v0.30.0 // indirect
	// errgroup: a few calls at a time, with the first error
	golang.org/x/sync v0.22.0
	// the columns that a letter takes on a terminal
	golang.org/x/text v0.41.0
	golang.org/x/tools v0.48.0 // indirect
	// the correlation of times in RAM and in flash
	gonum.org/v1/gonum v0.16.0
)
