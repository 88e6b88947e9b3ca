// Command microtvm-api-server serves TVM's Project API for the folder that it is started in: a template folder, or a
// project that boardsmith generated. TVM's Python starts it by the folder's launch_microtvm_api_server.sh.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/hashicorp/go-hclog"

	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/device/emulated"
	"github.com/boardsmith/boardsmith/internal/chipkeeper"
	"github.com/boardsmith/boardsmith/internal/projectapi"
	"github.com/boardsmith/boardsmith/project"
)

const usage = `microtvm-api-server serves TVM's Project API for the folder that it is started in.

  microtvm-api-server [SCRIPT] --read-fd N --write-fd N [--debug]

TVM starts it by launch_microtvm_api_server.sh, with two pipes. SCRIPT is ignored.
`

func main() {
	if err := run(os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(os.Stderr, "%s: %v\n", projectapi.Program, err)
		os.Exit(1)
	}
}

func run(args []string) (err error) {
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		args = args[1:]
	}
	flags := flag.NewFlagSet(projectapi.Program, flag.ContinueOnError)
	flags.Usage = func() { fmt.Fprint(flags.Output(), usage) }
	read := flags.Int("read-fd", -1, "")
	write := flags.Int("write-fd", -1, "")
	debug := flags.Bool("debug", false, "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *read < 0 || *write < 0 || flags.NArg() > 0 {
		flags.Usage()
		return errors.New("--read-fd and --write-fd are needed")
	}
	keepFromChildren(*read)
	keepFromChildren(*write)
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	executable, err := os.Executable()
	if err != nil {
		return err
	}
	level := hclog.Warn
	if *debug {
		level = hclog.Debug
	}
	log := hclog.New(&hclog.LoggerOptions{Name: projectapi.Program, Level: level, Output: os.Stderr})
	f := projectapi.Folder{
		Dir: dir, Executable: executable, Companions: []string{chipkeeper.Program}, Log: log,
		Builder: &project.Builder{Host: device.Host{Path: []string{dir}, Log: log}},
		Desk:    &device.Desk{Host: device.Host{Path: []string{dir}, Log: log}, Probes: emulated.Probes()},
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return projectapi.Serve(ctx, os.NewFile(uintptr(*read), "read-fd"), os.NewFile(uintptr(*write), "write-fd"), f)
}
