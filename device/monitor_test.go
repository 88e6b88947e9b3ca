package device

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/framing"
	"github.com/boardsmith/boardsmith/internal/testkit/rpctest"
	"github.com/boardsmith/boardsmith/rpc/fault"
)

// TestMonitorOfPieces: the same lines are shown wherever the received bytes are divided.
func TestMonitorOfPieces(t *testing.T) {
	var f framing.Framer
	bytes := append([]byte("boot\r\n"), f.Append(nil, []byte{1, 2, 1, 1})...)
	bytes = append(bytes, "\xff\xfebetween\n"...)
	rec := &fault.Record{Reason: fault.ReasonStack, WordBytes: 4, Arch: fault.ArchCortexM, Stack: make([]byte, 512)}
	bytes = fmt.Appendf(bytes, "#fault %x\r\n", rpctest.AppendRecord(nil, rec))
	bytes = append(bytes, f.Append(nil, []byte{1, 2, 3}, []byte("hello \xff"))...)
	show := func(parts ...[]byte) string {
		var lines []string
		add := func(s string) { lines = append(lines, s[8:]) }
		w := &monitoredLink{elapsed: func() time.Duration { return 0 }, in: direction{sign: "<"}, show: add}
		for _, p := range parts {
			w.decode(&w.in, p)
		}
		return strings.Join(lines, "\n")
	}
	all := show(bytes)
	for _, want := range []string{
		`outside of frames: "boot"`, "between", "started again after a fault in function 0x0: stack overflow",
		"Init reply session 0102",
		"log        session 0102",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("%q is not shown:\n%s", want, all)
		}
	}
	for i := range bytes {
		wantEqual(t, show(bytes[:i], bytes[i:]), all, i)
	}
}

// TestReplay: a recording is shown with its own times, wherever it is damaged up to there.
func TestReplay(t *testing.T) {
	var f framing.Framer
	reply := hex.EncodeToString(f.Append(nil, []byte{1, 2, 1, 1}))
	recording := `{"boardsmith_recording":1,"lossy":false}` + "\n" +
		`{"us":1500000,"to":"host","hex":"` + reply + `"}` + "\n"
	replayed := func(text string) (string, error) {
		var lines []string
		err := Monitoring{Show: func(line string) { lines = append(lines, line) }}.Replay(strings.NewReader(text))
		return strings.Join(lines, "\n"), err
	}
	const first = "   1.500 < Init reply session 0102,     1 bytes  01"
	got, err := replayed(recording + recording + `{"us":2000000,"to":"device","end":"closed"}`)
	want := first + "\n-- the link was opened again\n" + first + "\n   2.000 > the link was closed"
	if err != nil || got != want {
		t.Errorf("%v\n%s", err, got)
	}
	for _, damage := range []string{"x", `{"us":1,"to":"you","hex":"00"}`, `{"us":1,"to":"host","hex":"0"}`, "{"} {
		if got, err := replayed(recording + damage); failure.Of(err) != failure.Config || got != first {
			t.Errorf("%s: %v\n%s", damage, err, got)
		}
	}
	wantError(t, last(replayed("")), failure.Config)
}
