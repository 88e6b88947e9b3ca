package device_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/cache"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/device/internal/flashplan"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/cachekey"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/project"
	"github.com/boardsmith/boardsmith/rpc"
	"github.com/boardsmith/boardsmith/transport"
)

// rebuilt builds a project, and builds it again with another option into the same folder.
func rebuilt(t *testing.T, s project.Spec, e env, o boards.Options) (first, second *image.Image) {
	t.Helper()
	p := generated(t, s, e)
	first = built(t, p)
	s.Options = o
	must(t, p.Generate(t.Context(), s))
	second = built(t, p)
	if first.Path != second.Path || first.Digest == second.Digest {
		t.Fatalf("%v and %v in %s", first, second, second.Path)
	}
	return first, second
}

// TestImageOutlastsItsFile: an image is usable after its project was built again, as long as the cache has its file
// undamaged.
func TestImageOutlastsItsFile(t *testing.T) {
	t.Parallel()
	env := testEnv()
	env.Cache = cache.New(t.TempDir(), cache.Options{})
	first, second := rebuilt(t, project.Spec{Board: "host", Model: mlftest.Tiny(t, nil)}, env,
		boards.Options{OperatorOpt: "O0"})
	b := findBoard(t, "host")
	d, err := attach(t.Context(), b, "", env)
	must(t, err)
	for _, i := range []*image.Image{first, second} {
		_, err := d.Flash(t.Context(), i)
		must(t, err)
		s, err := d.Open(t.Context(), i) // it confirms the build id
		must(t, err)
		must(t, s.Close(t.Context()))
	}
	for _, name := range []string{first.ID(), first.ID()[:6], first.Digest, first.Digest[:10]} {
		i, err := env.images().Find(name)
		if err != nil || i.Digest != first.Digest || i.BuildID != first.BuildID || i.Board != "host" || i.Size != first.Size {
			t.Errorf("%s: %+v, %v", name, i, err)
		}
		if i != nil && (!reflect.DeepEqual(i.Landmarks, first.Landmarks) || len(i.Landmarks.Parts) == 0) {
			t.Errorf("%s: landmarks %+v", name, i.Landmarks)
		}
	}
	list, err := env.Cache.Images(func(of cache.EntryInfo) bool { return hex.EncodeToString(of.Key[:]) == first.Digest })
	if err != nil || len(list) != 1 {
		t.Fatalf("%v, %v", list, err)
	}
	path, _ := env.Cache.Image(list[0])
	must(t, os.Truncate(path, 1000))
	_, err = d.Flash(t.Context(), first)
	wantError(t, err, failure.Config, "is no longer")
	_, err = env.images().Find(first.ID())
	wantError(t, err, failure.Config, "not in the cache")
	for _, bad := range []string{"", "12345", "xyzxyz", strings.Repeat("0", 65), first.Digest + "/../x"} {
		if _, err := env.images().Find(bad); failure.Of(err) != failure.Config {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// TestAmbiguousImagePrefix: a prefix of two images' names finds neither.
func TestAmbiguousImagePrefix(t *testing.T) {
	t.Parallel()
	env := testEnv()
	env.Cache = cache.New(t.TempDir(), cache.Options{})
	for n := range 2 {
		data := append(minimalELF(t), byte(n))
		i := &image.Image{
			Path: filepath.Join(t.TempDir(), "a.elf"), Digest: cachekey.Digest(data),
			BuildID: [16]byte(append(bytes.Repeat([]byte{0xab}, 15), byte(n))), Board: "host",
		}
		must(t, os.WriteFile(i.Path, data, 0o600))
		env.images().Keep(i)
	}
	_, err := env.images().Find("abababab")
	wantError(t, err, "", "beginning of 2 images")
}

// minimalELF returns the smallest ELF file: this system's header, without sections.
func minimalELF(t *testing.T) []byte {
	t.Helper()
	h := make([]byte, 64)
	copy(h, "\x7fELF\x02\x01\x01")
	h[16], h[18], h[20], h[52], h[54], h[58] = 2, 62, 1, 64, 56, 64
	return h
}

// TestHoldsByAnswerOrLedger: the held image is found by the board's answer, or else by the ledger.
func TestHoldsByAnswerOrLedger(t *testing.T) {
	t.Parallel()
	d := newDesk(t, "microbit", "openocd")
	first, _ := rebuilt(t, project.Spec{Board: "microbit", Model: mlftest.Tiny(t, nil)}, d.env,
		boards.Options{OperatorOpt: "O0"})
	dev := d.attach()
	_, err := dev.CurrentImage(t.Context())
	wantError(t, err, failure.Verify)
	_, err = dev.Flash(t.Context(), first)
	must(t, err)
	d.mustHold(mustHoldImage(t, dev, first))
	port := *dev.Port()
	*dev.Port() = "/nowhere" // no firmware answers
	mustHoldImage(t, dev, first)
	*dev.Port() = port
	plan, err := d.env.desk().FlashCommands(t.Context(), dev.Board(), "", first)
	if err != nil || len(plan.Flash) != 1 {
		t.Errorf("%+v, %v", plan, err)
	}
}

func mustHoldImage(t *testing.T, d *device.Device, want *image.Image) *image.Image {
	t.Helper()
	i, err := d.CurrentImage(t.Context())
	must(t, err)
	if i.Digest != want.Digest || i.BuildID != want.BuildID {
		t.Errorf("it holds %v, not %v", i, want)
	}
	return i
}

// A muteLink can drop everything that the device sends.
type muteLink struct {
	transport.Link
	mute atomic.Bool
}

func (m *muteLink) Read(ctx context.Context, p []byte) (int, error) {
	if m.mute.Load() {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	return m.Link.Read(ctx, p)
}

// TestFlashLogsEarlierFault: a fault that was not reported yet is resolved with the build that caused it, before
// another build is flashed.
func TestFlashLogsEarlierFault(t *testing.T) {
	d := newDesk(t, "microbit", "openocd")
	var log bytes.Buffer
	d.env.Log = hclog.New(&hclog.LoggerOptions{Output: &log, Level: hclog.Warn})
	broken := strings.Replace(mlftest.TinyOperator, "return 0;", "return *(volatile int*)0x18000000U;", 1)
	first, second := rebuilt(t, project.Spec{
		Board: "microbit",
		Model: mlftest.Operator(t, broken),
	}, d.env,
		boards.Options{OperatorOpt: "O0"})
	dev := d.attach()
	_, err := dev.Flash(t.Context(), first)
	must(t, err)
	link, err := dev.OpenPort(t.Context())
	must(t, err)
	muted := &muteLink{Link: link}
	s, err := transport.Dial(t.Context(), muted, transport.SessionOptions{})
	must(t, err)
	session := rpc.New(s, rpc.Options{})
	lib, err := session.SystemLib(t.Context())
	must(t, err)
	twice, err := lib.Function(t.Context(), "twice")
	must(t, err)
	dtype, err := ndarray.ParseDType("int32")
	must(t, err)
	x, err := session.Empty(t.Context(), dtype, []int64{4})
	must(t, err)
	id, err := session.Function(t.Context(), "boardsmith.build_id")
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	_, err = id.Call(ctx) // the device has this deadline's budget then, and the next call is sent at once
	must(t, err)
	muted.mute.Store(true)
	time.AfterFunc(2*time.Second, cancel)
	if _, err := twice.Call(ctx, x, x); err == nil {
		t.Fatal("the call returned")
	}
	must(t, link.Close())
	log.Reset()
	_, err = dev.Flash(t.Context(), second)
	must(t, err)
	if !strings.Contains(log.String(), "fault in operator twice") {
		t.Errorf("logged %s", log.String())
	}
}

// TestContentOfChecksDigest: the sectors are those of the file with the image's digest: a file that another build
// replaced is an error.
func TestContentOfChecksDigest(t *testing.T) {
	t.Parallel()
	b := findBoard(t, "microbit")
	i := built(t, generated(t, project.Spec{Board: "microbit"}))
	_, err := flashplan.ContentOf(b, i)
	must(t, err)
	data := readFile(t, i.Path)
	at := bytes.LastIndex(data, i.BuildID[:])
	data[at-1] ^= 1
	writeFile(t, i.Path, string(data))
	_, err = flashplan.ContentOf(b, i)
	wantError(t, err, failure.Config, "is no longer")
}
