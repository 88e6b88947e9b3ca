package templates_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/tvmrpc"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/rpc"
	"github.com/boardsmith/boardsmith/rpc/fault"
	"github.com/boardsmith/boardsmith/transport"
)

// byHand builds the template as it lies here, for this computer and with no model, and returns the program.
func byHand(t *testing.T) string {
	t.Helper()
	testkit.Need(t, "make")
	build := t.TempDir()
	cmd := exec.Command("make", "-j2", "-C", "baremetal", "CRT=../../crt", "SRC=../firmware", "MODEL="+t.TempDir(),
		"BUILD="+build, "WERROR=-Werror")
	testkit.Output(t, cmd)
	return filepath.Join(build, "firmware.elf")
}

// newerCompiler is gcc with GCC 14's new errors switched on, unless the options set them otherwise; -w does not.
const newerCompiler = `#!/bin/sh
for a do shift; [ "$a" = -w ] || set -- "$@" "$a"; done
exec gcc -Werror=incompatible-pointer-types -Werror=int-conversion -Werror=implicit-function-declaration -Werror=implicit-int "$@"
`

// loose is C that GCC 12 warns of. %s keeps names apart.
const loose = `
static long %[1]s_first(long *p) { return p[0]; }
long %[1]s_pointers(int *p) { return %[1]s_first(p); }
long %[1]s_implicit(void) { return labs(-3L); }
const char *%[1]s_number(void) { return 7; }
%[1]s_untyped(a) { return a; }
void %[1]s_returns(void) { return 3; }
`

// TestNewerCompiler builds a model and a source of the user's that a newer compiler would refuse by its own rules. That
// the compiler does refuse them is shown by the same build with WERROR.
func TestNewerCompiler(t *testing.T) {
	testkit.Need(t, "make", "gcc")
	crt, err := filepath.Abs("../crt")
	must(t, err)
	dir := t.TempDir()
	must(t, os.CopyFS(dir, os.DirFS("baremetal")))
	for name, text := range map[string]string{
		"newer-gcc":                         newerCompiler,
		"src/extra.c":                       fmt.Sprintf(loose, "extra") + "static int unused(void) { return 1; }\n",
		"model/codegen/host/src/operator.c": fmt.Sprintf(loose, "operator"),
	} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755),
			os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	build := func(objects string, options ...string) (string, error) {
		argv := append([]string{"-C", dir, "CRT=" + crt, "CC=./newer-gcc", "build/" + objects}, options...)
		out, err := exec.Command("make", argv...).CombinedOutput()
		return string(out), err
	}
	for _, object := range []string{"model/operator.o", "src/extra.o"} {
		if out, err := build(object); err != nil {
			t.Errorf("%s: %v\n%s", object, err, out)
		}
	}
	out, err := build("src/extra.o", "WERROR=-Werror", "-B")
	for _, name := range []string{
		"incompatible-pointer-types", "int-conversion", "implicit-function-declaration",
		"implicit-int", "unused-function",
	} {
		if refused := regexp.MustCompile(` error: .*\[-W(error=)?` + name + `\]`); err == nil || !refused.MatchString(out) {
			t.Errorf("with WERROR %s is no error: %v\n%s", name, err, out)
		}
	}
}

// started runs the program with a fault file of that content ("" for none there) and opens a session.
func started(t *testing.T, program, record string, log *bytes.Buffer) (*transport.Session, string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "fault")
	if record != "" {
		testkit.WriteFile(t, file, record)
	}
	p, err := transport.StartProcess(t.Context(),
		transport.ProcessConfig{Path: program, Env: []string{"BOARDSMITH_FAULT_FILE=" + file}})
	must(t, err)
	o := transport.SessionOptions{}
	if log != nil {
		o.Log = hclog.New(&hclog.LoggerOptions{Output: log, Level: hclog.Debug})
	}
	s, err := transport.Dial(t.Context(), p, o)
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s, file
}

// aRecord is a record as boardsmith.md has it, of reason 1.
func aRecord() string {
	le := binary.LittleEndian
	b := le.AppendUint32(nil, 0x544c4642)
	b = append(b, 1, 0, 100, 0, 1, 4, 1, 3)
	for _, word := range []uint32{
		3, 0x80028001, 500, 0, 1000, 0x1a2b3c4d, 0x5e6f7080, 0x1234, 0x5678, 0x20000100,
		0x61000000, 0, 0,
	} {
		b = le.AppendUint32(b, word)
	}
	b = append(b, 8, 0, 4, 0)
	b = append(b, "stackup."+"text"...)
	for len(b) < 100-4 {
		b = append(b, 0)
	}
	return string(le.AppendUint32(b, crc32.ChecksumIEEE(b)))
}

func call(t *testing.T, s *rpc.Session, name string, args ...any) (any, error) {
	t.Helper()
	f, err := s.Function(t.Context(), name)
	must(t, err)
	return f.Call(t.Context(), args...)
}

// TestByHand has the template, built as it lies here, keep and deliver faults.
func TestByHand(t *testing.T) {
	program := byHand(t)
	t.Run("line", func(t *testing.T) { testFaultLine(t, program) })
	t.Run("damaged", func(t *testing.T) { testFaultFileDamaged(t, program) })
	t.Run("budget", func(t *testing.T) { testBudgetEndsWithSession(t, program) })
}

// testFaultLine tests a host that does not read a stored fault: a log line reports it after the host's first call, and
// the host may still read it once.
func testFaultLine(t *testing.T, program string) {
	var log bytes.Buffer
	link, file := started(t, program, aRecord(), &log)
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the record is still in its file: %v", err)
	}
	s := rpc.New(link, rpc.Options{})
	const line = "fault before this session: reason 1, code 0x3, function 0x80028001, pc 0x1234"
	if _, err := s.Function(t.Context(), "boardsmith.crc32"); err != nil || strings.Contains(log.String(), line) {
		t.Fatalf("before the first call: error %v, log %q", err, log.String())
	}
	for range 3 {
		if _, err := call(t, s, "boardsmith.build_id"); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Equal(t, "lines in "+log.String(), strings.Count(log.String(), line), 1)
	crc := int64(binary.LittleEndian.Uint32([]byte(aRecord()[len(aRecord())-4:])))
	for _, received := range []int64{0, crc ^ 1, 0} { // not its CRC: the record stays
		got, err := call(t, s, "boardsmith.fault", received)
		if b, _ := got.([]byte); err != nil || string(b) != aRecord() {
			t.Errorf("got %x, %v\nwant %x", got, err, aRecord())
		}
	}
	got, err := call(t, s, "boardsmith.fault", crc)
	if got != nil || err != nil {
		t.Errorf("the confirmation: %v, %v", got, err)
	}
	if got, err = call(t, s, "boardsmith.fault"); got != nil || err != nil {
		t.Errorf("the second time %v, %v", got, err)
	}
}

// testFaultFileDamaged keeps what is no record from being taken for one.
func testFaultFileDamaged(t *testing.T, program string) {
	whole := aRecord()
	for name, record := range map[string]string{
		"none":      "",
		"cut":       whole[:len(whole)-1],
		"longer":    whole + "\x00",
		"noise":     strings.Repeat("noise", 30000),
		"one bit":   whole[:40] + string(whole[40]^1) + whole[41:],
		"no length": whole[:6] + "\x00\x00" + whole[8:],
		"version 2": whole[:4] + "\x02" + whole[5:],
	} {
		t.Run(name, func(t *testing.T) {
			link, _ := started(t, program, record, nil)
			got, err := call(t, rpc.New(link, rpc.Options{}), "boardsmith.fault")
			want := any(nil)
			if name == "longer" {
				want = whole // what follows is not looked at
			}
			if b, ok := got.([]byte); ok {
				got = string(b)
			}
			must(t, err)
			testkit.Equal(t, name, got, want)
		})
	}
}

// testBudgetEndsWithSession lets a call run on in a session that has set no time budget, after one that has.
func testBudgetEndsWithSession(t *testing.T, program string) {
	link, _ := started(t, program, "", nil)
	s := rpc.New(link, rpc.Options{})
	must(t, s.SetBudget(t.Context(), time.Millisecond))
	long, err := s.Empty(t.Context(), ndarray.DType{Code: ndarray.UInt, Bits: 8, Lanes: 1}, []int64{15 << 20})
	must(t, err)
	var faultErr *fault.Error
	if _, err := call(t, s, "boardsmith.crc32", long); !errors.As(err, &faultErr) ||
		faultErr.Record.Reason != fault.ReasonTimeout || faultErr.Record.Code != 1 {
		t.Fatalf("with a budget of 1 ms: %v", err)
	}
	if _, err := call(t, s, "boardsmith.build_id"); err != nil { // the device, started anew, has its budget again
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	must(t, link.Redial(ctx))
	ask := func(p *tvmrpc.Packet) (reply tvmrpc.Packet) { // as a host that sets no budget
		t.Helper()
		must(t, link.Send(ctx, p.Append(nil)))
		msg, err := link.Recv(ctx)
		if err == nil {
			err = reply.Parse(msg)
		}
		if err != nil || reply.Code != tvmrpc.CodeReturn {
			t.Fatalf("in the next session: %+v, %v", reply, err)
		}
		return reply
	}
	array := tvmrpc.DLTensor{Device: tvmrpc.CPU, DType: long.DType(), Shape: long.Shape()}
	array.Data = ask(&tvmrpc.Packet{
		Code: tvmrpc.CodeAllocDataWithScope,
		Args: []tvmrpc.Value{tvmrpc.TensorOf(&array), tvmrpc.Null()},
	}).Args[0].Word
	crc32 := ask(&tvmrpc.Packet{
		Code: tvmrpc.CodeGetGlobalFunc,
		Args: []tvmrpc.Value{tvmrpc.Text("boardsmith.crc32")},
	}).Args[0].Word
	ask(&tvmrpc.Packet{Code: tvmrpc.CodeCallFunc, Handle: crc32, Args: []tvmrpc.Value{tvmrpc.TensorOf(&array)}})
}
