// This file executes a keeper's requests, keeps the chip's state and serves its serial line.

package virtualprobe

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/moby/sys/atomicwriter"

	"github.com/boardsmith/boardsmith/internal/chipkeeper"
)

// control answers requests, one at a time.
func (k *keeper) control(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}

		// Requests are answered one at a time: a client that sends none must not block the others.
		_ = conn.SetDeadline(time.Now().Add(answerTimeout))
		var q chipkeeper.Request
		if err := json.NewDecoder(io.LimitReader(conn, maxRequest)).Decode(&q); err == nil {
			_ = json.NewEncoder(conn).Encode(k.execute(q)) // a client that has disconnected needs no answer
		}

		if q.Do == "hold" {
			k.clients.Add(1)
			go k.hold(conn)
			continue
		}

		conn.Close()
		k.left()
		if q.Do == "down" {
			k.once.Do(func() { close(k.done) })
			return
		}
	}
}

// hold waits until the other end of a client's connection closes, which the end of a process does too.
func (k *keeper) hold(conn net.Conn) {
	defer conn.Close()
	defer k.leave()
	_ = conn.SetDeadline(time.Time{})
	_, _ = io.Copy(io.Discard, conn) // ends with the connection
}

// orders are the requests that a keeper executes.
var orders = map[string]func(*keeper, chipkeeper.Request) error{
	"status": func(*keeper, chipkeeper.Request) error { return nil },
	"hold":   func(*keeper, chipkeeper.Request) error { return nil },
	"down":   func(*keeper, chipkeeper.Request) error { return nil },
	"save":   func(k *keeper, _ chipkeeper.Request) error { return k.save() },
	"erase":  func(k *keeper, _ chipkeeper.Request) error { return k.chip.Erase() },
	"swap":   func(k *keeper, _ chipkeeper.Request) error { return k.swap() },
	"faults": func(k *keeper, q chipkeeper.Request) error {
		if q.Faults == nil {
			return fmt.Errorf("faults without any")
		}
		k.chip.Break(*q.Faults)
		return nil
	},
}

func (k *keeper) execute(q chipkeeper.Request) chipkeeper.Answer {
	do, ok := orders[q.Do]
	if !ok {
		return chipkeeper.Answer{Error: fmt.Sprintf("a keeper cannot %q; it can: %v", q.Do, slices.Sorted(maps.Keys(orders)))}
	}

	err := do(k, q)
	if err == nil && q.Do != "status" && q.Do != "hold" { // status requests may be frequent
		err = k.save()
	}

	a := chipkeeper.Answer{
		State: k.currentState(), Address: k.address, Busy: len(k.chip.claimed) > 0, Clients: k.clients.Load(),
		Transfers: k.chip.Transfers(),
	}

	if err != nil {
		a.Error = err.Error()
	}
	return a
}

// swap replaces the chip on the board.
func (k *keeper) swap() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.state.Chip++
	return k.chip.Swap(k.state.Chip)
}

// currentState returns the current state.
func (k *keeper) currentState() chipkeeper.State {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.look()
	return k.state
}

// look copies the wear from the chip. The caller holds the lock.
func (k *keeper) look() {
	w := k.chip.worn()
	k.state.Erases, k.state.Stuck, k.state.Weak, k.state.Unstable = w.Erases, w.Stuck, w.Weak, w.Unstable
}

// saveNow saves; it logs an error, because its callers cannot return one.
func (k *keeper) saveNow() {
	if err := k.save(); err != nil {
		k.log.Warn("save", "error", err)
	}
}

// save writes the changes of the flash, and the state. If a write fails, the next call repeats it.
func (k *keeper) save() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return errors.Join(k.saveFlash(), k.saveState())
}

func (k *keeper) saveFlash() error {
	// A change is reported once: if it was not saved then, it still must be.
	k.owes = k.chip.changed() || k.owes
	if !k.owes {
		return nil
	}

	flash, err := k.chip.Flash()
	if err == nil {
		err = atomicwriter.WriteFile(filepath.Join(k.dir, chipkeeper.FlashFile), flash, 0o644)
	}
	k.owes = err != nil
	return err
}

func (k *keeper) saveState() error {
	k.look()
	b, err := json.Marshal(k.state)
	if err != nil || bytes.Equal(b, k.saved) {
		return err
	}

	err = chipkeeper.WriteJSON(filepath.Join(k.dir, chipkeeper.StateFile), k.state)
	if err == nil {
		k.saved = b
	}
	return err
}

// serveUART copies bytes between the chip's first UART and the terminal. Bytes that the chip sends while no program has
// the terminal open are lost, as on a cable.
func (k *keeper) serveUART(f *os.File) {
	go k.toTerminal(f)
	for k.awaitClient(f) {
		k.clients.Add(1)
		k.fromTerminal(f)
		k.leave()
	}
}

// toTerminal copies the chip's output to the terminal. It continues when the emulator is restarted.
func (k *keeper) toTerminal(f *os.File) {
	buf := make([]byte, 4096)
	for {
		conn := k.chip.machine.serial.Load()
		if conn == nil {
			time.Sleep(awaitStep)
			continue
		}

		n, err := (*conn).Read(buf)
		if err != nil {
			time.Sleep(awaitStep) // wait for the next emulator
			continue
		}

		open, err := terminalOpen(f)
		if err != nil {
			return
		}
		if open {
			_ = f.SetWriteDeadline(time.Now().Add(time.Second))
			_, _ = f.Write(buf[:n]) // lost if the listener does not read
		}
	}
}

// fromTerminal copies bytes to the chip until the client disconnects.
func (k *keeper) fromTerminal(f *os.File) {
	buf := make([]byte, 4096)
	for {
		n, err := f.Read(buf)
		if err != nil {
			return
		}
		if conn := k.chip.machine.serial.Load(); conn != nil {
			_, _ = (*conn).Write(buf[:n]) // lost if the emulator has ended
		}
	}
}
