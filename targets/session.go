// This file holds what the targets of one mage run share: the inputs, and the project with its lock.

package targets

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"github.com/boardsmith/boardsmith/cache"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/project"
	"github.com/boardsmith/boardsmith/samples"
	"github.com/hashicorp/go-hclog"
)

// A session is one mage run.
type session struct {
	env environ
	dir string // the working folder
	out *output
	log hclog.Logger

	in         *inputs          // nil until a target needs them
	project    *project.Project // nil until loaded or generated; its lock is held until the process ends
	image      *project.Image   // nil until built, or found built
	picked     bool             // the image is the one that IMAGE names
	device     *project.Device  // nil until attached
	unfinished error            // why an existing project could not be loaded, where generating mends it
}

func newSession(env environ, stdout, stderr io.Writer) *session {
	dir, err := os.Getwd()
	if err != nil {
		dir = "." // every path given is then used as it is
	}
	s := &session{env: env, dir: dir, out: newOutput(stdout, stderr, env.set("JSON"))}
	level := hclog.Warn
	if env.set("VERBOSE") {
		level = hclog.Debug
	}
	s.log = hclog.New(&hclog.LoggerOptions{Name: "boardsmith", Level: level, Output: s.out, DisableTime: true})
	return s
}

// inputs are read once, by the first target that needs them.
func (s *session) inputs() (*inputs, error) {
	if s.in != nil {
		return s.in, nil
	}
	in, err := resolve(s.env, s.dir, s.load)
	if err != nil {
		return nil, err
	}
	s.in = in
	return in, nil
}

// forget lets go of the project, for a target that works on another one.
func (s *session) forget() error {
	p := s.project
	s.in, s.project, s.image, s.picked, s.unfinished = nil, nil, nil, false, nil
	if p == nil {
		return nil
	}
	return p.Close()
}

// load takes the project in dir and says what it was made of; nil if there is none.
func (s *session) load(dir string) (*made, error) {
	if !project.Exists(dir) {
		return nil, nil
	}
	p, err := project.Load(dir, s.projectEnv(nil))
	if errors.Is(err, project.ErrUnfinished) {
		s.unfinished = err
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	s.project = p
	return &made{board: p.Board().Name, template: p.Template(), model: p.ModelName(), module: p.Module(), options: p.Options()}, nil
}

func (s *session) projectEnv(in *inputs) project.Env {
	e := project.Env{
		Log: s.log, Progress: s.progressed, Flasher: s.env("FLASHER"), Ledger: s.env("BOARDSMITH_LEDGER"),
		Tool: func(name string) (string, error) { return findProgram(s.env, name) },
	}
	if in != nil {
		e.Path, e.Wait, e.Reflash, e.Bench = in.path, in.wait, s.env.set("FORCE"), in.bench
	}
	if c, err := s.cache(); err == nil { // cache:gc tells what is wrong with CACHE_MIB
		e.Cache = c
	}
	return e
}

// cache is what was built before, at most CACHE_MIB large.
func (s *session) cache() (*cache.Cache, error) {
	dir, err := cache.DefaultDir()
	if err != nil {
		return nil, err
	}
	limit, err := s.cacheLimit()
	return cache.New(dir, cache.Options{Limit: limit}), err
}

// cacheLimit is CACHE_MIB in bytes.
func (s *session) cacheLimit() (int64, error) {
	text := s.env("CACHE_MIB")
	if text == "" {
		return cache.DefaultLimit, nil
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 0 {
		return cache.DefaultLimit, failure.New(failure.Config, "", "CACHE_MIB=%s is not a number of MiB", text)
	}
	return n << 20, nil
}

// forced says whether FORCE is about files: a step that only comes upon a person's changes lets them be.
func (s *session) forced() bool {
	switch s.out.step {
	case "generate", "build", "clean":
		return s.env.set("FORCE")
	}
	return false
}

// progressed shows how far a step of package project is.
func (s *session) progressed(e project.Event) {
	s.out.mu.Lock()
	p := s.out.bar
	s.out.mu.Unlock()
	if p != nil {
		p.now(e.Step+": "+e.Detail, e.Done, e.Total)
	}
}

// matches says whether the project is for the board and the model that were asked for.
func (s *session) matches(in *inputs) error {
	p := s.project
	if in.board.asked && baseName(in.board.value) != p.Board().Name {
		return s.madeFor("board", p.Board().Name, baseName(in.board.value))
	}
	if in.model.asked && archiveName(in.model.value) != archiveName(p.ModelName()) {
		return s.madeFor("model", archiveName(p.ModelName()), archiveName(in.model.value))
	}
	if in.module.asked && in.module.value != p.Module() {
		return s.madeFor("model", p.Module(), in.module.value+" of "+archiveName(p.ModelName()))
	}
	return nil
}

func (s *session) madeFor(what, is, asked string) error {
	return failure.New(failure.Config, "choose another PROJECT, or make it anew: go tool mage generate",
		"project %s was made for %s %s, not for %s", shown(s.dir, s.project.Dir()), what, is, asked)
}

// current says whether the project holds what was asked for, so that using it as it is gives no surprise.
func (s *session) isCurrent(in *inputs) (bool, error) {
	p := s.project
	if in.optioned && in.options != p.Options() {
		return false, nil
	}
	if in.template.asked && filepath.Base(in.template.value) != p.Template() {
		return false, nil
	}
	if !in.model.asked {
		return true, nil
	}
	digest := samples.Digest()
	if in.model.value != "" {
		a, err := mlf.Open(in.model.value)
		if err != nil {
			return false, err
		}
		digest = a.Digest
	}
	return digest == p.ModelDigest(), nil
}
