// This file checks candidates and their arguments, and computes their digests.

package tune

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/project"
)

// flashSuffix ends the IDs and contents of results of Run.Confirm.
const flashSuffix = "@flash"

// checkID returns an error of class config for text that cannot be a candidate's ID.
func checkID(id string) error {
	if id != "" && !strings.HasSuffix(id, flashSuffix) && utf8.ValidString(id) {
		return nil
	}
	return failure.New(failure.Config, "give the candidate another ID", `%q cannot be a candidate's ID: it is empty, `+
		`not UTF-8, or ends with "%s" as those of Run.Confirm do`, id, flashSuffix)
}

// checkCandidate returns an error of class config for a record or arguments that no device accepts.
func checkCandidate(c Candidate) error {
	if c.Record != nil && !json.Valid(c.Record) {
		return failure.Errorf(failure.Config, "its record is no JSON")
	}
	for i, a := range c.Args {
		if err := a.check(); err != nil {
			return failure.Errorf(failure.Config, "argument %d: %w", i, err)
		}
	}
	if n := arenaBytes(c.Args); n > ndarray.MaxBytes {
		return failure.Errorf(failure.DoesNotFit, "arguments of %d bytes; at most %d are supported", n, ndarray.MaxBytes)
	}
	return nil
}

func (a *Arg) check() error {
	size, err := ndarray.Bytes(a.DType, a.Shape)
	switch {
	case err != nil:
		return err
	case a.Data != nil && len(a.Data) != size:
		return fmt.Errorf("%d bytes of data for %v%s, which takes %d", len(a.Data), a.DType,
			ndarray.ShapeString(a.Shape), size)
	case a.Want != nil && len(a.Want) != size:
		return fmt.Errorf("%d bytes are wanted of %v%s, which takes %d", len(a.Want), a.DType,
			ndarray.ShapeString(a.Shape), size)
	case a.Flash && (len(a.Data) == 0 || a.Want != nil):
		return errors.New("what lies in flash has data, and is no output")
	case !isTolerance(a.RelTol) || !isTolerance(a.AbsTol):
		return fmt.Errorf("tolerances of %v and %v", a.RelTol, a.AbsTol)
	}
	return nil
}

// isTolerance reports whether a number can be a tolerance: it is neither negative nor infinite nor NaN.
func isTolerance(v float64) bool { return v >= 0 && !math.IsInf(v, 1) }

// isInput reports whether the argument's content before a call matters.
func (a *Arg) isInput() bool { return a.Data != nil || a.Seed != 0 }

// isOutput reports whether the candidate may write the argument.
func (a *Arg) isOutput() bool { return a.Want != nil || !a.isInput() }

// content returns the bytes of an input before a call.
func (a *Arg) content() ([]byte, error) {
	if a.Data != nil {
		return a.Data, nil
	}

	array, err := ndarray.Fill(a.DType, a.Shape, a.Seed)
	if err != nil {
		return nil, failure.Errorf(failure.Config, "%w", err)
	}
	return array.Data, nil
}

// equalInputs reports whether arguments are equal except for the content of expected outputs.
func equalInputs(a, b []Arg) bool {
	return slices.EqualFunc(a, b, func(x, y Arg) bool {
		return x.DType == y.DType && slices.Equal(x.Shape, y.Shape) && bytes.Equal(x.Data, y.Data) &&
			(x.Data == nil) == (y.Data == nil) && (x.Want == nil) == (y.Want == nil) && x.Seed == y.Seed && x.Flash == y.Flash
	})
}

// functions returns the candidate's operators with its entry.
func (c *Candidate) functions() project.Operators {
	o := c.Operators
	o.Check = c.Entry
	if len(o.Entries) == 0 {
		o.Entries = []string{c.Entry}
	}
	return o
}

// constants returns the candidate's arguments that lie in flash, by their names in the firmware.
func (c *Candidate) constants() map[string][]byte {
	all := map[string][]byte{}
	for _, a := range c.Args {
		if a.Flash {
			all[constantName(a)] = a.Data
		}
	}
	return all
}

// constantName returns the name of the firmware's function for an argument that lies in flash.
func constantName(a Arg) string {
	sum := sha256.Sum256(a.Data)
	return "boardsmith_constant_" + hex.EncodeToString(sum[:8])
}

// A digest is a SHA-256.
type digest = [sha256.Size]byte

func argsDigest(args []Arg) digest {
	h := sha256.New()
	for _, a := range args {
		hashPart(h, fmt.Append(nil, a.DType, a.Shape, a.RelTol, a.AbsTol, a.Data == nil, a.Want == nil, a.Flash, a.Seed))
		hashPart(h, a.Data)
		hashPart(h, a.Want)
	}
	return digest(h.Sum(nil))
}

// hashPart adds bytes and their length to a hash.
func hashPart(h hash.Hash, b []byte) {
	_ = binary.Write(h, binary.LittleEndian, int64(len(b))) // a hash returns no error
	h.Write(b)
}

// guardBytes is the least size of a guard. Arguments lie at multiples of it.
const guardBytes = 64

// A plan is the division of a block.
type plan struct {
	offsets []int // of arguments; 0: it lies in flash
	bytes   int
}

// arenaBytes returns the size of the arguments that lie in the arena, with their guards.
func arenaBytes(args []Arg) int64 { return int64(planOf(args).bytes) }

func planOf(args []Arg) plan {
	p := plan{offsets: make([]int, len(args)), bytes: guardBytes}
	// The first guard lies before the inputs, another one behind each argument.
	for _, isOutput := range []bool{false, true} {
		for i := range args {
			if a := &args[i]; !a.Flash && a.isOutput() == isOutput {
				size, _ := ndarray.Bytes(a.DType, a.Shape) // checkCandidate has returned the error
				p.offsets[i] = p.bytes
				p.bytes += (size+guardBytes-1)/guardBytes*guardBytes + guardBytes
			}
		}
	}

	return p
}
