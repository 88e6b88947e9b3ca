//go:build linux

package serve_test

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/serve"
)

// A computer is a network namespace of its own, with a cable to this computer.
type computer struct {
	t          *testing.T
	name       string
	own, other string   // addresses: the computer's, and this computer's
	namespace  *os.File // of the network
}

// newComputer creates a computer, which ends with the test. n distinguishes those of one process.
func newComputer(t *testing.T, n int) *computer {
	t.Helper()
	name := fmt.Sprintf("bs%d-%d", os.Getpid(), n)
	net := fmt.Sprintf("198.%d.%d", 18+n%2, os.Getpid()%256) // networks for measurements (RFC 2544)
	c := &computer{t: t, name: name, own: fmt.Sprintf("%s.%d", net, 4*n+2), other: fmt.Sprintf("%s.%d", net, 4*n+1)}
	t.Cleanup(func() { _ = exec.Command("ip", "netns", "delete", name).Run() })
	c.ip("netns add " + name)
	c.ip("link add " + name + " type veth peer name eth0 netns " + name)
	c.ip("address add " + c.other + "/30 dev " + name)
	c.ip("link set " + name + " up")
	c.ip("-n " + name + " address add " + c.own + "/30 dev eth0")
	c.ip("-n " + name + " link set eth0 up")
	namespace, err := os.Open("/run/netns/" + name)
	must(t, err)
	t.Cleanup(func() { namespace.Close() })
	c.namespace = namespace
	return c
}

// ip runs the program ip, and skips the test if that cannot set up networks.
func (c *computer) ip(args string) {
	c.t.Helper()
	if out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput(); err != nil {
		c.t.Skipf("ip %s: %v, %s: the test needs root and network namespaces", args, err, out)
	}
}

// run runs a function whose sockets are the computer's.
func (c *computer) run(f func()) {
	c.t.Helper()
	runtime.LockOSThread()
	this, err := os.Open("/proc/thread-self/ns/net")
	must(c.t, err)
	defer this.Close()
	must(c.t, unix.Setns(int(c.namespace.Fd()), unix.CLONE_NEWNET))
	defer func() {
		must(c.t, unix.Setns(int(this.Fd()), unix.CLONE_NEWNET))
		runtime.UnlockOSThread()
	}()
	f()
}

// losePower ends the computer for others: packets to it get no answer.
func (c *computer) losePower() {
	c.t.Helper()
	c.ip("-n " + c.name + " address delete " + c.own + "/30 dev eth0")
}

// TestPowerLoss: a client whose computer loses its power, or its network, cannot close its connection. The board is
// free for the next client nevertheless, whatever the client was waiting for.
func TestPowerLoss(t *testing.T) {
	t.Parallel()
	uses := []string{"", "endless", "slow"} // an idle session, a call, a reply that is not acknowledged
	var waiting []client
	var lost []time.Time
	for n, function := range uses {
		far := newComputer(t, n)
		b, address := startAt(t, far.other, serve.Options{})
		var c client
		far.run(func() { c = connect(t, address, "client:") })
		c.begin()
		if function != "" {
			c.send("03000000" + c.lookUp(function) + "00000000")
			<-b.entered
		}
		time.Sleep(200 * time.Millisecond) // the computer has acknowledged what was sent
		far.losePower()
		lost = append(lost, time.Now())
		next := connect(t, address, "client:")
		must(t, next.SetDeadline(time.Now().Add(time.Minute)))
		next.wait()
		waiting = append(waiting, next)
	}
	for n, next := range waiting {
		next.served()
		took := time.Since(lost[n]).Round(100 * time.Millisecond)
		if t.Logf("function %q: the board is free after %v", uses[n], took); took < 5*time.Second || took > 25*time.Second {
			t.Errorf("function %q: the board is free after %v", uses[n], took)
		}
	}
}

// TestSlowClient: a client that pauses in the middle of a reply, and between requests, stays connected.
func TestSlowClient(t *testing.T) {
	if !drawn.InFull() {
		t.Skip("test:full runs it: it pauses for half a minute")
	}
	t.Parallel()
	_, address := start(t, serve.Options{})
	c := connect(t, address, "client:")
	must(t, c.SetDeadline(time.Now().Add(2*time.Minute)))
	c.begin()
	download := c.lookUp("tvm.rpc.server.download")
	must(t, last(result(c.call(c.lookUp("tvm.rpc.server.upload"), args(text("x"), blob(make([]byte, 30<<20)))))))
	c.send("03000000" + download + args(text("x")))
	var length uint64
	must(t, binary.Read(c, binary.LittleEndian, &length))
	time.Sleep(10 * time.Second) // the reply is longer than what the systems buffer
	must(t, last(io.CopyN(io.Discard, c, int64(length))))
	time.Sleep(20 * time.Second)
	c.lookUp("echo")
}
