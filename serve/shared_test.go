//go:build linux

package serve_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/serve"
)

// request asks TVM's tracker for a board, and repeats that while there is no tracker.
func request(ctx context.Context, tracker, key string) (address, matchKey string, err error) {
	for ctx.Err() == nil {
		if address, matchKey, err = requestOnce(ctx, tracker, key); err == nil {
			return address, matchKey, nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return "", "", errors.Join(err, ctx.Err())
}

func requestOnce(ctx context.Context, tracker, key string) (address, matchKey string, err error) {
	reply, err := ask(ctx, tracker, fmt.Sprintf(`[4, %q, "", 1]`, key))
	if err != nil {
		return "", "", err
	}
	var host string
	var port int
	place := []any{&host, &port, &matchKey}
	if err := json.Unmarshal(reply, &[]any{new(int), &place}); err != nil {
		return "", "", err
	}
	return net.JoinHostPort(host, fmt.Sprint(port)), matchKey, nil
}

// ask sends a message to TVM's tracker and returns the reply.
func ask(ctx context.Context, tracker, message string) ([]byte, error) {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", tracker)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	head := binary.LittleEndian.AppendUint32(nil, 0x2F271)
	if _, err := c.Write(head); err != nil {
		return nil, err
	}
	if _, err := io.ReadFull(c, head); err != nil { // TVM's tracker accepts no message before its own
		return nil, err
	}
	if _, err := c.Write(append(binary.LittleEndian.AppendUint32(nil, uint32(len(message))), message...)); err != nil {
		return nil, err
	}
	if _, err := io.ReadFull(c, head); err != nil {
		return nil, err
	}
	reply := make([]byte, binary.LittleEndian.Uint32(head))
	_, err = io.ReadFull(c, reply)
	return reply, err
}

// measureAt measures a candidate with a board that the tracker chooses.
func measureAt(ctx context.Context, t *testing.T, tracker, key string, archive []byte) error {
	address, matchKey, err := request(ctx, tracker, key)
	if err != nil {
		return err
	}
	c := connect(t, address, "client:"+matchKey)
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil { // compilers of other candidates work, too
		return err
	}
	c.welcomed("server:" + key)
	c.send(initServer)
	c.served()
	defer c.send(shutdown)
	return c.measure(archive)
}

// TestSharedRun: boards of one key, each at an address of its own, share the candidates of several clients; none is
// lost or measured twice. A board that dies in the middle of one costs this candidate a clear error, and nothing else;
// neither does a tracker that restarts.
func TestSharedRun(t *testing.T) {
	t.Parallel()
	places, clients, total := drawn.Count(4, 64), drawn.Count(4, 20), drawn.Count(100, 10_000)
	const host, key = "127.0.0.1", "bd"
	port := freePort(t, host)
	stop := startTracker(t, todays, host, port)
	tracker := net.JoinHostPort(host, port)
	var boards []*board
	for i := range places {
		address := fmt.Sprintf("127.0.%d.1", i+1)
		b, _ := startAt(t, address, serve.Options{Key: key, Tracker: tracker, Address: address})
		boards = append(boards, b)
	}
	ctx := testkit.Context(t)
	var next, died atomic.Int32
	var group sync.WaitGroup
	for range clients {
		group.Go(func() {
			for n := int(next.Add(1)); n <= total; n = int(next.Add(1)) {
				archive := fmt.Sprint("good ", n)
				if n%10 == 0 {
					archive = fmt.Sprint("dies ", n)
				}
				err := measureAt(ctx, t, tracker, key, []byte(archive))
				switch {
				case n%10 != 0 && err != nil:
					t.Errorf("candidate %d: %v", n, err)
				case n%10 == 0 && (err == nil || !strings.Contains(err.Error(), "the board stopped: link closed")):
					t.Errorf("candidate %d, which kills the board: %v", n, err)
				case n%10 == 0:
					died.Add(1)
				}
				if n == total/2 {
					stop()
					stop = startTracker(t, todays, host, port)
				}
			}
		})
	}
	group.Wait()
	defer stop()
	var loaded []string
	for _, b := range boards {
		if loaded = append(loaded, b.loaded...); len(b.loaded) == 0 {
			t.Error("a board measured none")
		}
	}
	slices.Sort(loaded)
	if once := slices.Compact(slices.Clone(loaded)); len(loaded) != total || len(once) != total ||
		int(died.Load()) != total/10 {
		t.Errorf("%d measurements of %d candidates, of %d; %d died", len(loaded), len(once), total, died.Load())
	}
}
