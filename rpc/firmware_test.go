//go:build unix

package rpc_test

// This file tests with real firmware: the baremetal template's process, with the operators in testdata/model.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/transporttest"
	"github.com/boardsmith/boardsmith/rpc"
	"github.com/boardsmith/boardsmith/transport"
)

var scratch string // of the whole test run

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "rpc-test-")
	if err != nil {
		panic(err)
	}
	scratch = dir
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// buildFirmware builds once per test run.
var buildFirmware = sync.OnceValues(func() (string, error) {
	return makeFirmware("testdata/model", filepath.Join(scratch, "build"))
})

// makeFirmware builds the baremetal template with the operators of a model; variables are passed to make as
// NAME=value.
func makeFirmware(model, build string, variables ...string) (string, error) {
	model, err := filepath.Abs(model)
	if err != nil {
		return "", err
	}
	args := []string{
		"-C", "../templates/baremetal", "-j4", "CRT=../../crt", "SRC=../firmware", "MODEL=" + model,
		"BUILD=" + build,
	}
	cmd := exec.Command("make", append(args, variables...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", errors.New(string(out))
	}
	return filepath.Join(build, "firmware.elf"), nil
}

func needTools(t testing.TB) {
	t.Helper()
	for _, tool := range []string{"make", "cc"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("needs %s to build firmware: %v", tool, err)
		}
	}
}

func firmware(t testing.TB) *transport.Process {
	t.Helper()
	needTools(t)
	path, err := buildFirmware()
	must(t, err)
	return startFirmware(t, path)
}

func startFirmware(t testing.TB, path string) *transport.Process {
	t.Helper()
	p, err := transport.StartProcess(context.Background(), transport.ProcessConfig{Path: path})
	must(t, err)
	t.Cleanup(func() { p.Close() })
	return p
}

// Firmware runs and times operators, and its errors leave the session as it was.
func TestFirmwareRunsOperators(t *testing.T) {
	ctx := testkit.Context(t)
	s := session(t, firmware(t), rpc.Options{})
	negate, m := operator(t, s, "negate"), library(t, s)
	for _, n := range []int{1, 4096, 3 << 20} {
		in, out := filled(t, s, random(n)), empty(t, s, n)
		_, err := negate.Call(ctx, in, out)
		must(t, err)
		want := random(n)
		for i := range want {
			want[i] = -want[i]
		}
		if !bytes.Equal(content(t, out), want) {
			t.Errorf("%d bytes: wrong result", n)
		}
		if err := errors.Join(in.Free(ctx), out.Free(ctx)); err != nil {
			t.Error(err)
		}
	}
	var e *rpc.DeviceError
	if _, err := operator(t, s, "fail").Call(ctx); !errors.As(err, &e) || e.Message != "boom" {
		t.Errorf("got %v", err)
	}
	if _, err := m.Function(ctx, "absent"); !errors.Is(err, rpc.ErrNotFound) {
		t.Errorf("got %v", err)
	}
	_, err := s.Empty(ctx, i8, []int64{100 << 20})
	wantError(t, err, failure.DoesNotFit)
	_, err = s.Empty(ctx, i8, []int64{-1})
	wantError(t, err, failure.Config)
	_, err = negate.Call(ctx, random(5000))
	wantError(t, err, failure.DoesNotFit)
	samples := valueOf[[]float64](t)(m.Time(ctx, "count", rpc.TimeOptions{Number: 5, Repeat: 3}))
	if slices.Min(samples) <= 0 || len(samples) != 3 {
		t.Errorf("samples %v", samples)
	}
	if n := valueOf[any](t)(operator(t, s, "count").Call(ctx)); n != int64(1+3*5+1) {
		t.Errorf("timing called it until %v", n)
	}
}

// With noise, a session works or ends with an error that has a class; results are never wrong. A later session
// without noise works.
func TestFirmwareSurvivesNoise(t *testing.T) {
	p := firmware(t)
	for seed := range uint64(20) {
		ctx := within(t, 500*time.Millisecond)
		noise := transporttest.Noise{Flip: 2e-5, Drop: 5e-6, Duplicate: 5e-6}
		link := transporttest.Damage(unclosed{p}, seed, noise)
		s, err := transport.Dial(ctx, link, transport.SessionOptions{FrameGap: 50 * time.Millisecond})
		if err == nil {
			err = roundTrip(ctx, rpc.New(s, rpc.Options{}))
		}
		if err != nil && failure.Of(err) == failure.Internal {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
	if err := roundTrip(testkit.Context(t), session(t, unclosed{p}, rpc.Options{})); err != nil {
		t.Error(err)
	}
}

// unclosed is a link that outlives its sessions.
type unclosed struct{ transport.Link }

func (unclosed) Close() error { return nil }

// A copy with damage that CRC-16 does not detect is detected by the CRC-32 that real firmware computes, and repeated,
// in both directions.
func TestCRC32DetectsDamageThatCRC16Misses(t *testing.T) {
	for direction, want := range map[transporttest.Direction]int{transporttest.ToDevice: 1, transporttest.ToHost: 0} {
		t.Run(fmt.Sprint(direction), func(t *testing.T) {
			hits := 0
			s := session(t, transporttest.Tamper(firmware(t), wholeFrames(direction, func(p []byte) {
				if len(p) > 8000 && hits == 0 {
					hits++
					weak(p, 2000)
				}
			})), rpc.Options{})
			if got := content(t, filled(t, s, calm(8000))); !bytes.Equal(got, calm(8000)) || hits != 1 {
				t.Errorf("%d messages damaged; equal: %t", hits, bytes.Equal(got, calm(8000)))
			}
			if damages(t, s) != want {
				t.Errorf("%d damages, want %d", damages(t, s), want)
			}
		})
	}
}

// Damage that looks like the start of another frame: real firmware reports it, and the copy is repeated.
func TestFirmwareReportsCutFrame(t *testing.T) {
	pair := []byte{0xff, 0xff, 0xff, 0xff}
	damages := map[string]func(p []byte) []byte{
		"flipped bit": func(p []byte) []byte {
			i := bytes.Index(p, pair)
			return append(append(p[:i:i], 0xff, 0xfd), p[i+2:]...)
		},
		"lost byte": func(p []byte) []byte {
			i := bytes.Index(p, []byte{0xff, 0xff, 0xfd})
			return append(p[:i:i], p[i+1:]...)
		},
	}
	for name, damage := range damages {
		for _, n := range []int{64, 8000} {
			t.Run(fmt.Sprintf("%s of %d", name, n), func(t *testing.T) {
				device := firmware(t) // built before the time starts
				data := calm(n)
				copy(data[n/2:], []byte{0xff, 0xff, 0, 0xff, 0xfd})
				hits := 0
				s := session(t, transporttest.Tamper(device, func(way transporttest.Direction, p []byte) []byte {
					if way != transporttest.ToDevice || hits > 0 || !bytes.Contains(p, pair) || len(p) < n {
						return p
					}
					hits++
					return damage(p)
				}), rpc.Options{})
				if got := content(t, filled(t, s, data)); !bytes.Equal(got, data) || hits != 1 {
					t.Errorf("%d messages damaged; equal: %t", hits, bytes.Equal(got, data))
				}
			})
		}
	}
}

// Killing the firmware during a session is an error, and so are later calls.
func TestKilledFirmwareEndsSession(t *testing.T) {
	ctx := testkit.Context(t)
	p := firmware(t)
	f := global(t, session(t, p, rpc.Options{}), "runtime.SystemLib")
	must(t, syscall.Kill(p.PID(), syscall.SIGKILL))
	var process *transport.ProcessError
	if _, err := f.Call(ctx); !errors.As(err, &process) || failure.Of(err) != failure.Host {
		t.Errorf("got %v", err)
	}
	if _, err := f.Call(ctx); !errors.Is(err, rpc.ErrBroken) {
		t.Errorf("afterwards: %v", err)
	}
}

// Firmware that resets itself ends the session with ErrTerminated; the same process accepts a new session.
func TestResetFirmwareAcceptsNewSession(t *testing.T) {
	ctx := testkit.Context(t)
	p := firmware(t)
	f := global(t, session(t, unclosed{p}, rpc.Options{}), "tvm.testing.reset_server")
	if _, err := f.Call(ctx); !errors.Is(err, transport.ErrTerminated) {
		t.Errorf("got %v", err)
	}
	if err := roundTrip(ctx, session(t, unclosed{p}, rpc.Options{})); err != nil {
		t.Error(err)
	}
}
