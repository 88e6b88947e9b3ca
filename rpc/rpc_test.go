package rpc_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/rpc"
	"github.com/boardsmith/boardsmith/rpc/rpctest"
	"github.com/boardsmith/boardsmith/transport"
	"github.com/boardsmith/boardsmith/transport/transporttest"
)

var (
	i8  = ndarray.DType{Code: ndarray.Int, Bits: 8, Lanes: 1}
	f32 = ndarray.DType{Code: ndarray.Float, Bits: 32, Lanes: 1}
)

func within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// open runs d behind a link in memory and opens a session with it.
func open(t testing.TB, d *rpctest.Device, wrap func(transport.Link) transport.Link) *rpc.Session {
	t.Helper()
	host, device := transporttest.Pair()
	if wrap != nil {
		host, device = transporttest.LossyPair()
		host = wrap(host)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = d.Serve(context.Background(), device)
	}()
	s, err := transport.Dial(within(t, 10*time.Second), host, transport.SessionOptions{FrameGap: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	session := rpc.New(s, rpc.Options{})
	t.Cleanup(func() {
		_ = session.Close(within(t, 10*time.Second))
		<-done // so that the test may look at d
	})
	return session
}

// echo returns its last argument.
func echo(_ *rpctest.Device, args []rpc.Value) ([]rpc.Value, error) {
	switch v := args[len(args)-1]; v.Type {
	case rpc.TypeModule, rpc.TypeFunction:
		return rpctest.HandleResult(v.Type, v.Word), nil
	case rpc.TypeTensor:
		return rpctest.ArrayResult(v.Tensor, 0x1234), nil
	default:
		return rpctest.Result(v), nil
	}
}

func negate(d *rpctest.Device, args []rpc.Value) ([]rpc.Value, error) {
	in, err := d.Content(args[0].Tensor)
	if err != nil {
		return nil, err
	}
	out, err := d.Content(args[1].Tensor)
	if err != nil {
		return nil, err
	}
	for i := range in {
		out[i] = -in[i]
	}
	return rpctest.Nothing(), nil
}

func fail(*rpctest.Device, []rpc.Value) ([]rpc.Value, error) { return nil, errors.New("boom") }

func device() *rpctest.Device {
	return &rpctest.Device{
		Globals: map[string]rpctest.Func{"echo": echo, "fail": fail},
		Module:  map[string]rpctest.Func{"negate": negate, "fail": fail},
		Streams: true,
	}
}

func random(n int) []byte {
	r := rand.New(rand.NewPCG(uint64(n), 1))
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(r.Uint32())
	}
	return p
}

func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func TestCallValues(t *testing.T) {
	ctx := within(t, 10*time.Second)
	s := open(t, device(), nil)
	f := must[rpc.Function](t)(s.Function(ctx, "echo"))
	for _, c := range []struct{ give, want any }{
		{nil, nil},
		{1, int64(1)},
		{int8(-1), int64(-1)},
		{int16(-300), int64(-300)},
		{int32(math.MinInt32), int64(math.MinInt32)},
		{int64(math.MinInt64), int64(math.MinInt64)},
		{uint(7), int64(7)},
		{uint8(255), int64(255)},
		{uint16(65535), int64(65535)},
		{uint32(math.MaxUint32), int64(math.MaxUint32)},
		{uint64(math.MaxUint64), uint64(math.MaxUint64)},
		{true, int64(1)},
		{false, int64(0)},
		{1.5, 1.5},
		{float32(0.25), 0.25},
		{math.Inf(-1), math.Inf(-1)},
		{"", ""},
		{"text\x00\xff", "text\x00\xff"},
		{[]byte{0xff, 0xfd, 0}, []byte{0xff, 0xfd, 0}},
		{f32, f32},
		{rpc.Device{Type: 1, ID: -2}, rpc.Device{Type: 1, ID: -2}},
		{rpc.Handle(0xffffffff80028000), rpc.Handle(0xffffffff80028000)},
	} {
		got, err := f.Call(ctx, "ignored", c.give)
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%T %v: got %T %v, %v", c.give, c.give, got, got, err)
		}
	}
	if got := must[any](t)(f.Call(ctx, f)); got != f {
		t.Errorf("function: %v", got)
	}
	m := must[rpc.Module](t)(s.SystemLib(ctx))
	if got := must[any](t)(f.Call(ctx, m)); got != m {
		t.Errorf("module: %v", got)
	}
	if _, err := f.Call(ctx, struct{}{}); failure.Of(err) != failure.Internal {
		t.Errorf("an argument of no type: %v", err)
	}
	other := open(t, device(), nil)
	if _, err := f.Call(ctx, must[rpc.Module](t)(other.SystemLib(ctx))); err == nil {
		t.Error("a module of another session was taken")
	}
	if _, err := (rpc.Function{}).Call(ctx); err == nil {
		t.Error("a function of no session was called")
	}
	if _, err := f.Call(ctx, 1); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

func TestNotFound(t *testing.T) {
	ctx := within(t, 10*time.Second)
	s := open(t, device(), nil)
	var missing *rpc.NotFoundError
	if _, err := s.Function(ctx, "absent"); !errors.As(err, &missing) || failure.Of(err) != failure.Config {
		t.Errorf("global: %v", err)
	}
	m := must[rpc.Module](t)(s.SystemLib(ctx))
	if _, err := m.Function(ctx, "absent"); !errors.As(err, &missing) || missing.In != "module" {
		t.Errorf("in the module: %v", err)
	}
}

// A device's own error leaves the session as it was.
func TestDeviceError(t *testing.T) {
	ctx := within(t, 10*time.Second)
	s := open(t, device(), nil)
	f := must[rpc.Function](t)(s.Function(ctx, "fail"))
	for range 3 {
		_, err := f.Call(ctx)
		var e *rpc.DeviceError
		if !errors.As(err, &e) || e.Message != "boom" || err.Error() != "calling fail: device: boom" {
			t.Errorf("got %v", err)
		}
	}
	if _, err := s.Empty(ctx, i8, []int64{1 << 28}); failure.Of(err) != failure.DoesNotFit {
		t.Errorf("too much memory: %v", err)
	}
	if _, err := s.Empty(ctx, i8, []int64{-1}); failure.Of(err) != failure.Config {
		t.Errorf("negative shape: %v", err)
	}
	if err := s.Sync(ctx); err != nil {
		t.Error(err)
	}
}

// Where the device had too little memory, more of it helps, whoever asked for it.
func TestDeviceErrorClass(t *testing.T) {
	for message, want := range map[string]failure.Class{
		"out of memory": failure.DoesNotFit, "out of workspace memory": failure.DoesNotFit, "boardsmith: damaged request": failure.Transport, "boom": failure.Fault, "": failure.Fault,
	} {
		e := &rpc.DeviceError{Message: message}
		if got := failure.Of(e); got != want || (failure.Next(e) != "") != (want == failure.DoesNotFit) {
			t.Errorf("%q: class %s, next %q", message, got, failure.Next(e))
		}
	}
}

func TestOperator(t *testing.T) {
	ctx := within(t, 10*time.Second)
	d := device()
	s := open(t, d, nil)
	m := must[rpc.Module](t)(s.SystemLib(ctx))
	f := must[rpc.Function](t)(m.Function(ctx, "negate"))
	in := must[*rpc.Tensor](t)(s.NewArray(ctx, &ndarray.Array{DType: i8, Shape: []int64{2, 3}, Data: []byte{1, 2, 3, 0xff, 0, 5}}))
	out := must[*rpc.Tensor](t)(s.Empty(ctx, i8, in.Shape()))
	if _, err := f.Call(ctx, in, out); err != nil {
		t.Fatal(err)
	}
	got := must[*ndarray.Array](t)(out.Array(ctx))
	if want := []byte{0xff, 0xfe, 0xfd, 1, 0, 0xfb}; !bytes.Equal(got.Data, want) || got.DType != i8 || !slices.Equal(got.Shape, []int64{2, 3}) {
		t.Errorf("got %+v, want % x", got, want)
	}
	if err := in.CopyTo(ctx, out); err != nil {
		t.Fatal(err)
	}
	back := make([]byte, 6)
	if err := out.Read(ctx, back); err != nil || !bytes.Equal(back, []byte{1, 2, 3, 0xff, 0, 5}) {
		t.Errorf("copied on the device: % x, %v", back, err)
	}
	for range 2 {
		if err := in.Free(ctx); err != nil {
			t.Error(err)
		}
	}
	if _, err := f.Call(ctx, in, out); err == nil {
		t.Error("a freed tensor was passed")
	}
	if err := in.Write(ctx, back); err == nil {
		t.Error("a freed tensor was written")
	}
	if err := out.Write(ctx, back[1:]); failure.Of(err) != failure.Config {
		t.Errorf("too little data: %v", err)
	}
	if d.Live() != 1 {
		t.Errorf("%d allocations left", d.Live())
	}
}

// Memory that is the device's own can be read and passed on, and is never freed.
func TestTensorAt(t *testing.T) {
	ctx := within(t, 10*time.Second)
	d := device()
	at := d.Allocate(4)
	s := open(t, d, nil)
	tensor := must[*rpc.Tensor](t)(s.TensorAt(ctx, rpc.Handle(at), f32, nil))
	if err := tensor.Write(ctx, []byte{1, 2, 3, 4}); err != nil {
		t.Fatal(err)
	}
	if got := must[*ndarray.Array](t)(tensor.Array(ctx)); len(got.Shape) != 0 || !bytes.Equal(got.Data, []byte{1, 2, 3, 4}) {
		t.Errorf("got %+v", got)
	}
	if err := errors.Join(tensor.Free(ctx), s.Close(ctx)); err != nil || d.Live() != 1 || len(d.Freed) > 0 {
		t.Errorf("%v, %d allocations left, freed %v", err, d.Live(), d.Freed)
	}
}

// A device that was shut down is asked nothing more.
func TestShutdown(t *testing.T) {
	ctx := within(t, 10*time.Second)
	d := device()
	s := open(t, d, nil)
	must[*rpc.Tensor](t)(s.Empty(ctx, i8, []int64{1}))
	if err := s.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
	if err := s.Sync(ctx); failure.Of(err) != failure.Config {
		t.Errorf("afterwards: %v", err)
	}
	if err := s.Close(ctx); err != nil || len(d.Requests) != 1 {
		t.Errorf("%v, requests %v", err, d.Requests)
	}
}

func TestViews(t *testing.T) {
	ctx := within(t, 10*time.Second)
	s := open(t, device(), nil)
	pool := must[*rpc.Tensor](t)(s.Alloc(ctx, 64, 16))
	view := must[*rpc.Tensor](t)(pool.View(f32, []int64{2, 2}))
	if err := view.Write(ctx, random(16)); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 64)
	if err := pool.Read(ctx, got); err != nil || !bytes.Equal(got[:16], random(16)) {
		t.Errorf("% x, %v", got, err)
	}
	if _, err := pool.View(f32, []int64{17}); failure.Of(err) != failure.Config {
		t.Errorf("a view that is too long: %v", err)
	}
	if err := view.Free(ctx); err != nil {
		t.Fatal(err)
	}
	if err := pool.Read(ctx, got); err == nil {
		t.Error("the memory was freed through its view, and read")
	}
}

// Copies of any length arrive, in one message where the device streams, else in as many as its packets ask for.
func TestCopies(t *testing.T) {
	for name, d := range map[string]*rpctest.Device{
		"streams":         {Streams: true},
		"packets of 2048": {Packet: 2048},
		"packets of 8192": {Packet: 8192}, // longer than what TVM's host is told
		"packets of 128":  {Packet: 128},
		"without limit":   {},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := within(t, 20*time.Second)
			s := open(t, d, nil)
			for _, n := range []int{0, 1, 69, 70, 1985, 1986, 4096, 100000} {
				tensor := must[*rpc.Tensor](t)(s.Empty(ctx, i8, []int64{int64(n)}))
				if err := tensor.Write(ctx, random(n)); err != nil {
					t.Fatal(err)
				}
				got := must[*ndarray.Array](t)(tensor.Array(ctx))
				if !bytes.Equal(got.Data, random(n)) {
					t.Errorf("%d bytes came back changed", n)
				}
				if err := tensor.Free(ctx); err != nil {
					t.Fatal(err)
				}
			}
			if d.Packet > 0 && d.Longest != d.Packet {
				t.Errorf("longest message %d, packets are %d", d.Longest, d.Packet)
			}
		})
	}
}

// 4096 bytes go to a device that streams in one round trip, after one question.
func TestCopyRoundTrips(t *testing.T) {
	ctx := within(t, 10*time.Second)
	d := device()
	s := open(t, d, nil)
	tensor := must[*rpc.Tensor](t)(s.Empty(ctx, i8, []int64{4096}))
	for range 2 {
		if err := tensor.Write(ctx, random(4096)); err != nil {
			t.Fatal(err)
		}
	}
	want := []rpc.Code{rpc.CodeAllocDataWithScope, rpc.CodeGetGlobalFunc, rpc.CodeCopyToRemote, rpc.CodeCopyToRemote}
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if got := d.Requests[:4]; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// A call that is too long is refused before anything of it is sent, and the longest one goes.
func TestLimits(t *testing.T) {
	for name, d := range map[string]*rpctest.Device{
		"packets": {Packet: 1024}, "streams": {Packet: 1024, Streams: true}, "long packets": {Packet: 6000, Streams: true},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := within(t, 10*time.Second)
			d.Globals = device().Globals
			s := open(t, d, nil)
			f := must[rpc.Function](t)(s.Function(ctx, "echo"))
			var limit *rpc.LimitError
			fits := d.Packet - 3 - 8 - 4 - 8 - 4 - 4 - 8
			if _, err := f.Call(ctx, random(fits)); err != nil {
				t.Errorf("the longest call: %v", err)
			}
			_, err := f.Call(ctx, random(fits+1))
			if !errors.As(err, &limit) || failure.Of(err) != failure.DoesNotFit ||
				!strings.Contains(err.Error(), fmt.Sprint("TVM_CRT_MAX_PACKET_SIZE_BYTES is ", d.Packet)) {
				t.Errorf("a longer one: %v", err)
			}
			if d.Longest != d.Packet {
				t.Errorf("longest message %d, packets are %d", d.Longest, d.Packet)
			}
		})
	}
}

// A tensor whose description alone is too long for a packet cannot be copied.
func TestRankLimit(t *testing.T) {
	ctx := within(t, 10*time.Second)
	d := &rpctest.Device{Packet: 1024}
	s := open(t, d, nil)
	tensor := must[*rpc.Tensor](t)(s.Empty(ctx, i8, slices.Repeat([]int64{1}, 200)))
	var limit *rpc.LimitError
	if err := tensor.Write(ctx, []byte{1}); !errors.As(err, &limit) {
		t.Errorf("a tensor of rank 200: %v", err)
	}
	if d.Longest > 2*1024 {
		t.Errorf("a message of %d bytes was sent", d.Longest)
	}
}

// What a call returned is freed in its own way, and Close frees what is left, newest first.
func TestFreeing(t *testing.T) {
	ctx := within(t, 10*time.Second)
	d := device()
	d.Globals["make"] = func(*rpctest.Device, []rpc.Value) ([]rpc.Value, error) {
		return rpctest.HandleResult(rpc.TypeModule, 0x8001), nil
	}
	s := open(t, d, nil)
	f := must[rpc.Function](t)(s.Function(ctx, "echo"))
	mk := must[rpc.Function](t)(s.Function(ctx, "make"))
	tensor := must[*rpc.Tensor](t)(s.Empty(ctx, i8, []int64{3}))
	must[any](t)(mk.Call(ctx))
	must[any](t)(f.Call(ctx, tensor))
	array := must[any](t)(f.Call(ctx, tensor)).(*rpc.Tensor)
	if err := array.Write(ctx, []byte{1, 2, 3}); err != nil {
		t.Fatal(err)
	}
	if err := array.Free(ctx); err != nil {
		t.Fatal(err)
	}
	if err := f.Free(ctx); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
	want := []rpc.TypeCode{rpc.TypeNDArray, rpc.TypeFunction, rpc.TypeNDArray, rpc.TypeModule, rpc.TypeHandle}
	if !slices.Equal(d.Freed, want) || d.Live() != 0 {
		t.Errorf("freed %v, want %v; %d allocations left", d.Freed, want, d.Live())
	}
	var broken *rpc.BrokenError
	if err := s.Sync(ctx); !errors.As(err, &broken) {
		t.Errorf("after Close: %v", err)
	}
}

func TestTime(t *testing.T) {
	ctx := within(t, 10*time.Second)
	calls := 0
	d := device()
	d.Module["count"] = func(*rpctest.Device, []rpc.Value) ([]rpc.Value, error) {
		calls++
		return rpctest.Nothing(), nil
	}
	s := open(t, d, nil)
	m := must[rpc.Module](t)(s.SystemLib(ctx))
	got := must[[]float64](t)(m.Time(ctx, "count", rpc.TimeOptions{Number: 3, Repeat: 4}))
	if want := []float64{1e-6, 2e-6, 3e-6, 4e-6}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if calls != 13 {
		t.Errorf("%d calls", calls)
	}
	if got := must[[]float64](t)(m.Time(ctx, "count", rpc.TimeOptions{})); len(got) != 1 || calls != 13+11 {
		t.Errorf("by default: %v, %d calls", got, calls)
	}
	var e *rpc.DeviceError
	if _, err := m.Time(ctx, "absent", rpc.TimeOptions{}); !errors.As(err, &e) {
		t.Errorf("an unknown function: %v", err)
	}
	if _, err := m.Time(ctx, "fail", rpc.TimeOptions{}); !errors.As(err, &e) || e.Message != "boom" {
		t.Errorf("a failing function: %v", err)
	}
	if _, err := m.Time(ctx, "count", rpc.TimeOptions{Repeat: -1}); failure.Of(err) != failure.Config {
		t.Errorf("repeat -1: %v", err)
	}
	for _, d.Unit = range []float64{math.NaN(), math.Inf(1), -1} { // of a platform whose timer is wrong
		if got, err := m.Time(ctx, "count", rpc.TimeOptions{}); failure.Of(err) != failure.Fault || failure.Next(err) == "" {
			t.Errorf("samples of %v s: %v, %v", d.Unit, got, err)
		}
	}
}

// A call that takes too long is a timeout, and ends the session with a clear error.
func TestTimeoutEndsTheSession(t *testing.T) {
	release := make(chan struct{})
	d := device()
	d.Globals["sleep"] = func(*rpctest.Device, []rpc.Value) ([]rpc.Value, error) {
		<-release
		return rpctest.Nothing(), nil
	}
	s := open(t, d, nil)
	defer close(release)
	f := must[rpc.Function](t)(s.Function(within(t, 10*time.Second), "sleep"))
	_, err := f.Call(within(t, 30*time.Millisecond))
	var timeout *transport.TimeoutError
	if !errors.As(err, &timeout) || failure.Of(err) != failure.Timeout {
		t.Errorf("got %v", err)
	}
	_, err = f.Call(within(t, time.Second))
	var broken *rpc.BrokenError
	if !errors.As(err, &broken) || failure.Of(err) != failure.Timeout || failure.Next(err) == "" {
		t.Errorf("afterwards: %v, class %s", err, failure.Of(err))
	}
}

// A deadline of its own bounds a request whose context has none.
func TestDefaultTimeout(t *testing.T) {
	s := rpc.New(silent{}, rpc.Options{Timeout: 20 * time.Millisecond})
	if _, err := s.Function(context.Background(), "x"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	s = rpc.New(silent{}, rpc.Options{})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for range 2 {
		if _, err := s.Function(ctx, "x"); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled before it began: %v", err)
		}
	}
	var broken *rpc.BrokenError
	if _, err := s.Function(within(t, time.Millisecond), "x"); errors.As(err, &broken) {
		t.Errorf("a request that was never sent ended the session: %v", err)
	}
}

// silent is a device that never answers.
type silent struct{}

func (silent) Send(context.Context, ...[]byte) error { return nil }
func (silent) Close() error                          { return nil }
func (silent) Lossy() bool                           { return false }
func (silent) Recv(ctx context.Context) ([]byte, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// held is a device that never answers, and tells when it was asked.
type held struct {
	silent
	sent chan struct{}
}

func (h held) Send(context.Context, ...[]byte) error {
	close(h.sent)
	return nil
}

// says is a device that answers every request with the same bytes.
type says []byte

func (says) Send(context.Context, ...[]byte) error  { return nil }
func (says) Close() error                           { return nil }
func (says) Lossy() bool                            { return false }
func (s says) Recv(context.Context) ([]byte, error) { return s, nil }
func (s says) session() *rpc.Session                { return rpc.New(s, rpc.Options{}) }
func encoded(code rpc.Code, args ...rpc.Value) says {
	return (&rpc.Packet{Code: code, Args: args}).Append(nil)
}
func returned(args ...rpc.Value) says { return encoded(rpc.CodeReturn, args...) }
func typed(t rpc.TypeCode, args ...rpc.Value) says {
	return returned(append([]rpc.Value{rpc.Int(int64(t))}, args...)...)
}

func shape(dims ...int64) *rpc.DLTensor {
	return &rpc.DLTensor{Device: rpc.CPU, DType: i8, Shape: dims}
}

func callOf(s *rpc.Session, f rpc.Function) error {
	_, err := f.Call(context.Background())
	_ = s
	return err
}
func lookUp(s *rpc.Session) error { _, err := s.Function(context.Background(), "f"); return err }
func allocate(s *rpc.Session) error {
	_, err := s.Empty(context.Background(), i8, []int64{1})
	return err
}
func moduleOf(s *rpc.Session) (rpc.Module, error) { return s.SystemLib(context.Background()) }

// Answers that no device gives are errors of the protocol, and end the session.
func TestHostileAnswers(t *testing.T) {
	good := returned(rpc.Opaque(5))
	for name, c := range map[string]struct {
		answer says
		ask    func(*rpc.Session) error
	}{
		"nothing":                 {nil, lookUp},
		"garbage":                 {says("garbage, and more of it"), lookUp},
		"empty packet":            {says(make([]byte, 8)), lookUp},
		"request":                 {encoded(rpc.CodeGetGlobalFunc, rpc.Text("f")), lookUp},
		"void for a handle":       {returned(rpc.Null()), lookUp},
		"two handles":             {returned(rpc.Opaque(1), rpc.Opaque(2)), lookUp},
		"integer for a handle":    {returned(rpc.Int(1)), allocate},
		"copy for a handle":       {(&rpc.Packet{Code: rpc.CodeCopyAck, Data: []byte{1}}).Append(nil), allocate},
		"exception without text":  {encoded(rpc.CodeException), lookUp},
		"exception with a number": {encoded(rpc.CodeException, rpc.Int(1)), lookUp},
		"handle for void":         {good, func(s *rpc.Session) error { return s.Sync(context.Background()) }},
		"handle for a module":     {good, func(s *rpc.Session) error { _, err := moduleOf(s); return err }},
	} {
		s := c.answer.session()
		err := c.ask(s)
		var e *rpc.ProtocolError
		if !errors.As(err, &e) {
			t.Errorf("%s: got %v", name, err)
		}
		var broken *rpc.BrokenError
		if err := lookUp(s); !errors.As(err, &broken) {
			t.Errorf("%s, afterwards: got %v", name, err)
		}
	}
}

// switching answers the first request well, the others with something else. It has no time budgets.
type switching struct {
	says
	first   says
	asked   bool
	request []byte
}

func (s *switching) Send(_ context.Context, parts ...[]byte) error {
	s.request = bytes.Join(parts, nil)
	return nil
}

func (s *switching) Recv(context.Context) ([]byte, error) {
	if bytes.Contains(s.request, []byte("boardsmith.budget")) {
		return returned(rpc.Opaque(0)), nil
	}
	if !s.asked {
		s.asked = true
		return s.first, nil
	}
	return s.says, nil
}

func TestHostileResults(t *testing.T) {
	for name, answer := range map[string]says{
		"no values":          returned(),
		"type only":          returned(rpc.Int(0)),
		"no type":            returned(rpc.Null(), rpc.Null()),
		"other value":        typed(rpc.TypeInt, rpc.Text("x")),
		"three values":       typed(rpc.TypeInt, rpc.Int(1), rpc.Int(2)),
		"object":             typed(8, rpc.Opaque(1)),
		"type 2^32":          typed(1<<30, rpc.Opaque(1)),
		"module by value":    typed(rpc.TypeModule, rpc.Int(1)),
		"tensor alone":       typed(rpc.TypeNDArray, rpc.TensorOf(shape(1))),
		"tensor without one": typed(rpc.TypeNDArray, rpc.Null(), rpc.Opaque(1)),
		"negative shape":     typed(rpc.TypeNDArray, rpc.TensorOf(shape(-1)), rpc.Opaque(1)),
		"petabyte":           typed(rpc.TypeNDArray, rpc.TensorOf(shape(1<<50)), rpc.Opaque(1)),
		"shape overflows":    typed(rpc.TypeNDArray, rpc.TensorOf(shape(1<<40, 1<<40)), rpc.Opaque(1)),
	} {
		s := rpc.New(&switching{says: answer, first: returned(rpc.Opaque(5))}, rpc.Options{})
		f := must[rpc.Function](t)(s.Function(context.Background(), "f"))
		var e *rpc.ProtocolError
		if err := callOf(s, f); !errors.As(err, &e) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	// A tensor that claims to be long costs nothing until it is read, and then what arrives.
	s := rpc.New(&switching{says: typed(rpc.TypeNDArray, rpc.TensorOf(shape(1<<28)), rpc.Opaque(1)), first: returned(rpc.Opaque(5))}, rpc.Options{})
	f := must[rpc.Function](t)(s.Function(context.Background(), "f"))
	tensor := must[any](t)(f.Call(context.Background())).(*rpc.Tensor)
	if _, err := tensor.Array(context.Background()); err == nil {
		t.Error("a quarter of a gigabyte was read")
	}
}

// A handle of 0 is no function.
func TestNullHandles(t *testing.T) {
	s := rpc.New(&switching{says: typed(rpc.TypeFunction, rpc.Opaque(0)), first: returned(rpc.Opaque(5))}, rpc.Options{})
	f := must[rpc.Function](t)(s.Function(context.Background(), "f"))
	if got, err := f.Call(context.Background()); got != nil || err != nil {
		t.Errorf("got %v, %v", got, err)
	}
}

// Requests from many goroutines do not get mixed up.
func TestManyGoroutines(t *testing.T) {
	ctx := within(t, 20*time.Second)
	s := open(t, device(), nil)
	f := must[rpc.Function](t)(s.Function(ctx, "echo"))
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for i := range 50 {
				want := int64(1000*g + i)
				if got, err := f.Call(ctx, want); err != nil || got != want {
					t.Errorf("got %v, %v; want %d", got, err, want)
					return
				}
			}
		})
	}
	all.Wait()
}

// One tensor is written, read and viewed from several goroutines; the race detector looks on.
func TestTensorAtOnce(t *testing.T) {
	ctx := within(t, 20*time.Second)
	s := open(t, device(), nil)
	tensor := must[*rpc.Tensor](t)(s.Empty(ctx, i8, []int64{8}))
	var all sync.WaitGroup
	for _, do := range []func() error{
		func() error { return tensor.Write(ctx, make([]byte, 8)) },
		func() error { return tensor.Read(ctx, make([]byte, 8)) },
		func() error { return tensor.Discard(ctx) },
		func() error {
			v, err := tensor.View(f32, []int64{2})
			if err == nil {
				err = v.Read(ctx, make([]byte, 8))
			}
			return err
		},
	} {
		all.Go(func() {
			for range 20 {
				if err := do(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

// A goroutine that waits for its turn stops when its context ends, and Close does not wait for a call for ever.
func TestWaitingForTurn(t *testing.T) {
	link := held{sent: make(chan struct{})}
	s := rpc.New(link, rpc.Options{})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() {
		_, err := s.Function(ctx, "x")
		done <- err
	}()
	<-link.sent
	if err := s.Sync(within(t, 10*time.Millisecond)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if err := s.Close(within(t, 10*time.Millisecond)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("close: %v", err)
	}
	cancel()
	<-done
}

// A cable pulled after any number of bytes is a clean error.
func TestCutEverywhere(t *testing.T) {
	run := func(link transport.Link) error {
		ctx := within(t, 10*time.Second)
		s, err := transport.Dial(ctx, link, transport.SessionOptions{Seed: 1})
		if err != nil {
			return err
		}
		r := rpc.New(s, rpc.Options{})
		m, err := r.SystemLib(ctx)
		if err != nil {
			return err
		}
		f, err := m.Function(ctx, "negate")
		if err != nil {
			return err
		}
		a, err := r.NewArray(ctx, &ndarray.Array{DType: i8, Shape: []int64{3}, Data: []byte{1, 2, 3}})
		if err != nil {
			return err
		}
		if _, err := f.Call(ctx, a, a); err != nil {
			return err
		}
		if _, err := a.Array(ctx); err != nil {
			return err
		}
		return r.Close(ctx)
	}
	start := func() transport.Link {
		host, dev := transporttest.Pair()
		d := device()
		d.Seed = 1 // so that every run has the same bytes to escape
		go func() { _ = d.Serve(context.Background(), dev) }()
		return host
	}
	link, count := transporttest.Count(start())
	if err := run(link); err != nil {
		t.Fatal(err)
	}
	for n := 0; n < count(); n++ {
		link := start()
		if err := run(transporttest.CutAfter(n, link)); !errors.Is(err, transport.ErrClosed) {
			t.Fatalf("cut after %d of %d bytes: %v", n, count(), err)
		}
		link.Close()
	}
}

func BenchmarkCallInMemory(b *testing.B) {
	s := open(b, device(), nil)
	benchmarkCalls(b, s)
}

// benchmarkCalls reports the median of an empty call.
func benchmarkCalls(b *testing.B, s *rpc.Session) {
	ctx := context.Background()
	f := must[rpc.Function](b)(s.Function(ctx, "runtime.SystemLib"))
	times := make([]time.Duration, 0, 1<<20)
	b.ReportAllocs()
	for b.Loop() {
		began := time.Now()
		if _, err := f.Call(ctx); err != nil {
			b.Fatal(err)
		}
		times = append(times, time.Since(began))
	}
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2].Nanoseconds())/1e3, "median-µs")
	b.ReportMetric(float64(times[len(times)*9/10].Nanoseconds())/1e3, "p90-µs")
}
