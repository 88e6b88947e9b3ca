//go:build unix

package rpc_test

// This file tests with real firmware: the baremetal template's process, with the operators in testdata/model.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/framing"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
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

func firmware(t testing.TB) *transport.Process {
	t.Helper()
	testkit.Need(t, "make", "cc")
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
		must(t, last(negate.Call(ctx, in, out)))
		want := random(n)
		for i := range want {
			want[i] = -want[i]
		}
		wantEqual(t, content(t, out), want, n)
		must(t, errors.Join(in.Free(ctx), out.Free(ctx)))
	}
	var e *rpc.DeviceError
	if _, err := operator(t, s, "fail").Call(ctx); !errors.As(err, &e) || e.Message != "boom" {
		t.Errorf("got %v", err)
	}
	wantIs(t, last(m.Function(ctx, "absent")), rpc.ErrNotFound)
	wantError(t, last(s.Empty(ctx, i8, []int64{100 << 20})), failure.DoesNotFit)
	wantError(t, last(s.Empty(ctx, i8, []int64{-1})), failure.Config)
	wantError(t, last(negate.Call(ctx, random(5000))), failure.DoesNotFit)
	samples := value(m.Time(ctx, "count", rpc.TimeOptions{Number: 5, Repeat: 3}))(t)
	if slices.Min(samples) <= 0 || len(samples) != 3 {
		t.Errorf("samples %v", samples)
	}
	wantEqual(t, value(operator(t, s, "count").Call(ctx))(t), int64(1+3*5+1), "timing called it until")
}

// TestSampleHasWholeBudget: the samples of a timed call take longer together than its budget.
func TestSampleHasWholeBudget(t *testing.T) {
	ctx := testkit.Context(t)
	testkit.Need(t, "make", "cc")
	link := value(transport.StartProcess(t.Context(), transport.ProcessConfig{
		Path: value(buildFirmware())(t),
		Env:  []string{"BOARDSMITH_FAULT_FILE=" + filepath.Join(t.TempDir(), "fault")}, // else budgets have no effect
	}))(t)
	t.Cleanup(func() { link.Close() })
	s := session(t, link, rpc.Options{})
	must(t, s.SetBudget(ctx, time.Second))

	m := library(t, s)
	samples := value(m.Time(ctx, "count", rpc.TimeOptions{Repeat: 8, MinRepeat: 150 * time.Millisecond}))(t)
	wantEqual(t, len(samples), 8)
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
	must(t, roundTrip(testkit.Context(t), session(t, unclosed{p}, rpc.Options{})))
}

// unclosed is a link that outlives its sessions.
type unclosed struct{ transport.Link }

func (unclosed) Close() error { return nil }

// A copy with damage that CRC-16 does not detect is detected by the CRC-32 that real firmware computes, and repeated,
// in both directions. One that CRC-16 detects would be no damage that the device counts.
func TestCRC32DetectsDamageThatCRC16Misses(t *testing.T) {
	for direction, want := range map[transporttest.Direction]int{transporttest.ToDevice: 1, transporttest.ToHost: 0} {
		t.Run(fmt.Sprint(direction), func(t *testing.T) {
			hits := 0
			s := session(t, wholeFrames(direction, func(p []byte) {
				if len(p) > 8000 && hits == 0 {
					hits++
					weak(p, 2000)
				}
			})(firmware(t)), rpc.Options{})
			if got := content(t, filled(t, s, calm(8000))); !bytes.Equal(got, calm(8000)) || hits != 1 {
				t.Errorf("%d messages damaged; equal: %t", hits, bytes.Equal(got, calm(8000)))
			}
			wantEqual(t, damages(t, s), want)
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

// Firmware that resets itself ends the session with ErrTerminated; the same process accepts a new session.
func TestResetFirmwareAcceptsNewSession(t *testing.T) {
	ctx := testkit.Context(t)
	p := firmware(t)
	f := global(t, session(t, unclosed{p}, rpc.Options{}), "tvm.testing.reset_server")
	wantIs(t, last(f.Call(ctx)), transport.ErrTerminated)
	must(t, roundTrip(ctx, session(t, unclosed{p}, rpc.Options{})))
}

// What follows plays a recorded session, damaged at random, to firmware that was built with ASan and UBSan.

// buildChecked builds the firmware with sanitizers that end it at the first finding.
var buildChecked = sync.OnceValues(func() (string, error) {
	return makeFirmware("testdata/model", filepath.Join(scratch, "checked"),
		"CC=cc -fsanitize=address,undefined -fno-sanitize-recover=all")
})

// A spy records what the host sends.
type spy struct {
	transport.Link
	sent []byte
}

func (s *spy) Write(ctx context.Context, p []byte) error {
	s.sent = append(s.sent, p...)
	return s.Link.Write(ctx, p)
}

// messages returns the requests that were sent: the payloads of frames with the session's id.
func (s *spy) messages() [][]byte {
	const normal = 0x10
	var u framing.Unframer
	var all [][]byte
	for p := s.sent; len(p) > 0; {
		n, event := u.Next(p)
		if event == framing.Frame && len(u.Payload()) > 3 && u.Payload()[2] == normal {
			all = append(all, append([]byte(nil), u.Payload()...))
		}
		p = p[n:]
	}
	return all
}

// recordSession uses the firmware as a tuner does and returns the requests. The device frees what they allocated
// when the next session begins, so that their handles are invalid then.
func recordSession(ctx context.Context, t *testing.T, p transport.Link) [][]byte {
	t.Helper()
	link := &spy{Link: unclosed{p}}
	conn := value(transport.Dial(ctx, link, transport.SessionOptions{}))(t)
	s := rpc.New(conn, rpc.Options{})
	negate := operator(t, s, "negate")
	for _, n := range []int{16, 1500, 6000} { // short, and longer than the packet buffer
		in, out := filled(t, s, random(n)), empty(t, s, n)
		must(t, last(negate.Call(ctx, in, out)))
		content(t, out)
	}
	wantError(t, last(operator(t, s, "fail").Call(ctx, "text", []byte{1, 0xff}, 3.5, nil, i8)), "")
	value(library(t, s).Time(ctx, "count", rpc.TimeOptions{Number: 2, Repeat: 2}))(t)
	return link.messages()
}

// corrupt changes p in one to four places: it flips bits, drops or doubles bytes, or truncates p.
func corrupt(r *rand.Rand, p []byte) []byte {
	for range 1 + r.IntN(4) {
		at, run := r.IntN(len(p)), 1+r.IntN(8)
		end := min(at+run, len(p))
		switch r.IntN(8) {
		case 0, 1, 2:
			p[at] ^= 1 << r.IntN(8)
		case 3, 4:
			if end < len(p) {
				p = append(p[:at], p[end:]...)
			}
		case 5, 6:
			p = append(p[:end], append(append([]byte(nil), p[at:end]...), p[end:]...)...)
		default:
			p = p[:at+1]
		}
	}
	return p
}

// No damage to a session crashes or hangs the firmware or causes a wrong write, and an undamaged session works
// afterwards.
func TestFirmwareSurvivesCorruption(t *testing.T) {
	testkit.Need(t, "make", "cc")
	path, err := buildChecked()
	must(t, err)
	seed := rand.Uint64()
	if s := os.Getenv("SEED"); s != "" {
		must(t, last(fmt.Sscan(s, &seed)))
	}
	t.Logf("%d corruptions drawn by SEED=%d", drawn.Count(600, 10000), seed)
	r := rand.New(rand.NewPCG(seed, 0))
	link := startFirmware(t, path)
	for range drawn.Count(600, 10000) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		err := corruptedRound(ctx, r, link, recordSession(ctx, t, link))
		cancel()
		must(t, err)
	}
}

// corruptedRound sends the recorded session, damaged, and then an undamaged one.
func corruptedRound(ctx context.Context, r *rand.Rand, link transport.Link, requests [][]byte) error {
	var f framing.Framer
	f.Append(nil, nil) // after its reset nop
	var bytes []byte
	for _, m := range requests {
		bytes = f.Append(bytes, m)
	}
	if err := link.Write(ctx, corrupt(r, bytes)); err != nil {
		return err
	}
	conn, err := transport.Dial(ctx, unclosed{link}, transport.SessionOptions{})
	if err != nil {
		return err
	}
	return shortTrip(ctx, rpc.New(conn, rpc.Options{}), r.Uint64())
}
