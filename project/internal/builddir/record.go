// This file defines build.json, the record of the last build.

package builddir

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/sys/atomicwriter"

	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/project/internal/buildenv"
	"github.com/boardsmith/boardsmith/project/internal/projectfile"
	"github.com/boardsmith/boardsmith/project/internal/workdir"
)

const (
	recordFile   = "build.json" // in the build folder: the last build
	recordFormat = 1
)

// A Record is build.json, format 1: the inputs and results of the last build.
type Record struct {
	Format   int                 `json:"format"`
	BuildID  string              `json:"build_id"`
	Recipe   string              `json:"recipe"` // key of all inputs, tools and settings, without found
	Detected []buildenv.Identity `json:"found"`  // compiler and libraries, if only the build found them
	Digest   string              `json:"digest"` // SHA-256 of the ELF file
	Others   map[string]string   `json:"others"` // the other results, name to digest
	Size     image.Size          `json:"size"`
	Tools    []buildenv.Identity `json:"tools"`
	Edited   []string            `json:"edited,omitempty"`
	Inputs   map[string]string   `json:"inputs"` // name to digest
}

// Last returns the record of the last build, or nil if no build was finished or its results have changed.
func Last(t *workdir.Tree, s *projectfile.State) *Record {
	r := recordIn(t, s.Template.BuildFolder())
	if r == nil {
		return nil
	}

	elf := s.Template.ELF
	sums, err := t.Digests(append(slices.Collect(maps.Keys(r.Others)), elf))
	if err != nil || sums[elf] != r.Digest {
		return nil
	}
	if delete(sums, elf); !maps.Equal(sums, r.Others) {
		return nil
	}
	return r
}

// recordIn returns the record of the last build in a build folder, nil without a valid one.
func recordIn(t *workdir.Tree, folder string) *Record {
	data, err := t.ReadSome(path.Join(folder, recordFile), projectfile.MaxBytes)
	if err != nil {
		return nil
	}
	r, err := parseRecord(data)
	if err != nil {
		return nil
	}
	return r
}

func parseRecord(data []byte) (*Record, error) {
	var r Record

	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&r); err != nil {
		return nil, err
	}

	if id, err := hex.DecodeString(r.BuildID); r.Format != recordFormat || err != nil || len(id) != 16 {
		return nil, errors.New("not a build record of this format")
	}
	return &r, nil
}

// Finish writes the build record.
func (b *Build) Finish(results []string, id [16]byte, size image.Size) (*Record, error) {
	others, err := b.Tree.Digests(results)
	if err != nil {
		return nil, err
	}

	record := &Record{
		Format: recordFormat, BuildID: hex.EncodeToString(id[:]), Recipe: hex.EncodeToString(b.r.key[:]), Detected: b.r.found,
		Digest: others[b.State.Template.ELF], Others: others, Size: size, Tools: b.r.allTools(), Edited: b.r.edited,
		Inputs: b.r.inputs,
	}

	// Others is this map; the image has a field of its own.
	delete(others, b.State.Template.ELF)
	data, err := json.MarshalIndent(record, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", recordFile, err)
	}

	name := path.Join(b.State.Template.BuildFolder(), recordFile)
	at := filepath.Join(b.Tree.Dir, filepath.FromSlash(name))
	return record, b.Tree.Error("write", name, atomicwriter.WriteFile(at, append(data, '\n'), 0o644))
}

// RemoveResults removes the results of the last build, first its record. Other files stay, also results that changed.
func RemoveResults(t *workdir.Tree, folder, elf string) error {
	r := recordIn(t, folder)
	if r == nil {
		return nil
	}

	// The record is removed first: it must not describe a part of the results.
	if err := t.Remove(path.Join(folder, recordFile)); err != nil {
		return err
	}

	results := maps.Clone(r.Others)
	if results == nil {
		results = map[string]string{}
	}
	results[elf] = r.Digest
	for name, digest := range results {
		if !strings.HasPrefix(path.Clean(name), folder+"/") {
			continue // no build wrote it
		}

		have, err := t.Digest(name)
		if err == nil && have == digest {
			err = t.Remove(name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
