package executor_test

import (
	"context"
	"fmt"
	"hash/crc32"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/executor"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/standalone"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/transporttest"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/rpc"
	"github.com/boardsmith/boardsmith/transport"
)

// TestRestartInvalidatesTensors has standalone firmware restart when its output is read: neither the outputs nor the
// inputs of before are taken for those of the new start, which are zeros.
func TestRestartInvalidatesTensors(t *testing.T) {
	t.Parallel()
	restarted := false
	session := answering(t, func(words string) string {
		switch first, rest, _ := strings.Cut(words, " "); first {
		case "id":
			return "id 000102030405060708090a0b0c0d0e0f 12345678 -"
		case "model":
			return "model 0001 0001 0"
		case "in":
			return "in"
		case "run":
			return "run 00000000 0000000000000064 000003e8"
		case "fault":
			return "fault 0000 -"
		case "out":
			if !restarted {
				restarted = true
				return ""
			}
			return "out " + rest[len("12345678 "):] + " 00000000"
		}
		return "no request"
	})
	ctx := testkit.Context(t)
	x := mlf.Tensor{Name: "x", DType: ndarray.DType{Bits: 8, Lanes: 1}, Shape: []int64{4}, Bytes: 4}
	m := &mlf.Model{Inputs: []mlf.Tensor{x}, Outputs: []mlf.Tensor{x}}
	e, err := executor.OpenStandalone(ctx, session, m)
	must(t, err)
	in := &ndarray.Array{DType: x.DType, Shape: x.Shape, Data: []byte{1, 2, 3, 4}}
	start := func() {
		t.Helper()
		must(t, e.SetInput(ctx, "x", in))
		must(t, e.Run(ctx))
	}
	start()
	for _, o := range []rpc.TimeOptions{{Number: -1}, {Repeat: -1}, {MinRepeat: -1}} {
		_, err := e.Time(ctx, o)
		wantError(t, err, failure.Config)
	}
	_, err = e.Output(ctx, 0) // the restart
	wantError(t, err, failure.Fault)
	if a, err := e.Output(ctx, 0); err == nil {
		t.Errorf("an output of no run: % x", a.Data)
	}
	wantError(t, e.Run(ctx), failure.Config)
	start()
	_, err = e.Output(ctx, 0)
	must(t, err)
}

// TestStandaloneOfAnotherModel: firmware of a model with as many tensors, but of other types or shapes, is another
// one's.
func TestStandaloneOfAnotherModel(t *testing.T) {
	t.Parallel()
	x := mlf.Tensor{Name: "x", DType: ndarray.DType{Bits: 8, Lanes: 1}, Shape: []int64{1, 4}, Bytes: 4}
	m := &mlf.Model{Inputs: []mlf.Tensor{x}, Outputs: []mlf.Tensor{x}}
	for tensor, want := range map[string]string{
		"tensor 00 08 0001 00000001 00000004": "", "no request": "", // of an earlier version
		"tensor 01 08 0001 00000001 00000004": "its x is uint8 (1, 4), the archive has int8 (1, 4)",
		"tensor 00 08 0001 00000004":          "its x is int8 (4,), the archive has int8 (1, 4)",
	} {
		_, err := executor.OpenStandalone(testkit.Context(t), answering(t, func(words string) string {
			if words == "model" {
				return "model 0001 0001 0"
			}
			return tensor
		}), m)
		if want == "" {
			must(t, err)
		} else {
			wantError(t, err, "", want)
		}
	}
}

// answering returns a session with standalone firmware that answers so; to "" it restarts.
func answering(t *testing.T, to func(words string) string) *standalone.Session {
	host, device := transporttest.Pair()
	t.Cleanup(func() { host.Close(); device.Close() })
	go answer(device, to)
	return standalone.New(host, standalone.Options{})
}

// answer answers the requests of standalone firmware; to "" it restarts.
func answer(device transport.Link, to func(words string) string) {
	var line []byte
	for b := make([]byte, 1); ; {
		if n, err := device.Read(context.Background(), b); err != nil || n == 0 {
			return
		}
		if line = append(line, b...); b[0] != '\n' {
			continue
		}
		text := strings.TrimSpace(string(line))
		line = nil
		number, words, _ := strings.Cut(strings.TrimPrefix(text, "?"), " ")
		if len(words) < 9 {
			continue
		}
		line := "!0000 start "
		if words := to(words[:len(words)-9]); words != "" {
			line = fmt.Sprintf("=%s %s ", number, words)
		}
		line = fmt.Sprintf("%s%08x\n", line, crc32.ChecksumIEEE([]byte(line)))
		if device.Write(context.Background(), []byte(line)) != nil {
			return
		}
	}
}
