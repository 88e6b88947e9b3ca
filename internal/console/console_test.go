package console

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/failure"
)

func noVariables(string) string { return "" }

// TestProgress waits for the plain line that a step of more than a second prints, and for nothing of a shorter one.
func TestProgress(t *testing.T) {
	var printed bytes.Buffer
	c := New(noVariables, &printed, &printed)
	p := c.Start("short", 0)
	p.End()
	p.End()
	p = c.Start("long", 10)
	p.Add(4)
	time.Sleep(quiet + 300*time.Millisecond)
	c.endProgress()
	if got := printed.String(); got != "boardsmith: long: 4 of 10, 1 s\n" {
		t.Errorf("printed %q", got)
	}
}

// TestFail has a target fail: it is told to people and to programs, and the error has the exit status.
func TestFail(t *testing.T) {
	var out, errs bytes.Buffer
	c := New(func(name string) string { return map[string]string{"JSON": "1"}[name] }, &out, &errs)
	err := c.Do(t.Context(), "build", func(context.Context) error {
		return failure.New(failure.DoesNotFit, "buy more", "too big")
	})
	var status interface{ ExitStatus() int }
	if !errors.As(err, &status) || status.ExitStatus() != 4 {
		t.Errorf("status of %v", err)
	}
	if got := errs.String(); got != "boardsmith: error: too big\nboardsmith: hint: buy more\n" {
		t.Errorf("stderr %q", got)
	}
	want := `{"class":"does-not-fit","code":4,"error":"too big","next":"buy more",` +
		`"status":"failed","step":"build","v":1}` + "\n"
	if out.String() != want {
		t.Errorf("stdout %s, want %s", out.String(), want)
	}
}
