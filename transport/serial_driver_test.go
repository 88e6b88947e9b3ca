package transport

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.bug.st/serial"

	"github.com/boardsmith/boardsmith/failure"
)

// A silentPort is what the driver makes of a port that is gone on some systems: reads give nothing, and no error.
type silentPort struct{ serial.Port }

func (silentPort) Read([]byte) (int, error) { return 0, nil }
func (silentPort) ResetOutputBuffer() error { return nil }
func (silentPort) Close() error             { return nil }

func TestSerialReadsNothing(t *testing.T) {
	port := newSerial("silent", silentPort{})
	defer port.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := port.Read(ctx, make([]byte, 8)); !errors.Is(err, ErrClosed) || failure.Of(err) != failure.BoardLost {
		t.Errorf("%v, class %v", err, failure.Of(err))
	}
}
