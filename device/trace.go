// This file shows recordings of links.

package device

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"time"

	"github.com/boardsmith/boardsmith/failure"
)

// Replay shows the traffic in recordings of Desk.Trace or Record, which may follow each other, as Monitor does, with
// the times of the recordings. Messages of both directions are in the order in which they began. Only Show is used.
// Errors have class config: a damaged recording, of which all before the damage was shown.
func (m Monitoring) Replay(recordings io.Reader) error {
	if m.Show == nil {
		m.Show = func(string) {}
	}

	var w *monitoredLink
	var at time.Duration
	dec := json.NewDecoder(recordings)
	for number := 1; ; number++ {
		var l struct {
			Version int    `json:"boardsmith_recording"`
			Micros  int64  `json:"us"`
			To      string `json:"to"`
			Hex     string `json:"hex"`
			End     string `json:"end"`
		}
		err := dec.Decode(&l)
		if errors.Is(err, io.EOF) && number > 1 {
			w.finishBoth()
			return nil
		}

		data, hexErr := hex.DecodeString(l.Hex)
		switch {
		case errors.Join(err, hexErr) != nil:
			return failure.New(failure.Config, "name a recording of a link", "recording: entry %d: %w", number,
				errors.Join(err, hexErr))
		case l.Version == 1:
			if w != nil {
				w.finishBoth()
				m.Show("-- the link was opened again")
			}
			w = &monitoredLink{show: m.Show, elapsed: func() time.Duration { return at }}
			w.in.sign, w.out.sign = "<", ">"
			continue
		case w == nil || l.Version != 0 || l.To != "host" && l.To != "device":
			return failure.New(failure.Config, "name a recording of a link",
				"recording: entry %d is neither the start of a recording of version 1 nor traffic", number)
		}

		at = time.Duration(l.Micros) * time.Microsecond
		d := &w.out
		if l.To == "host" {
			d = &w.in
		}

		w.decode(d, data)
		if l.End == "closed" {
			w.line(d.sign, "the link was closed")
		}
	}
}

func (w *monitoredLink) finishBoth() {
	w.finish(&w.in)
	w.finish(&w.out)
}
