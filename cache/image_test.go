package cache

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

func imageLabel(n int) string { return fmt.Sprintf("board_%d", n) }

// labelled returns a filter for images with a label.
func labelled(t *testing.T, c *Cache, label string) []EntryInfo {
	t.Helper()
	list, err := c.Images(func(e EntryInfo) bool { return e.Label == label })
	must(t, err)
	return list
}

// rightImage returns an error if an image exists and does not match its label.
func rightImage(c *Cache, n int) error {
	list, err := c.Images(func(e EntryInfo) bool { return e.Label == imageLabel(n) })
	for _, e := range list {
		path, ok := c.Image(e)
		if !ok {
			continue // removed meanwhile
		}
		data, err := os.ReadFile(path)
		if err == nil && !bytes.Equal(data, content(n)[0].Data) {
			return fmt.Errorf("image %d is another's", n)
		}
	}
	return err
}

func TestImages(t *testing.T) {
	c := newCache(t)
	for _, text := range []string{"one", "two", "one"} {
		must(t, c.PutImage("b-1.x", []byte(text)))
	}
	list := labelled(t, c, "b-1.x")
	if len(list) != 2 || list[0].Bytes != 3 {
		t.Fatalf("%+v", list)
	}
	for _, e := range list {
		path, ok := c.Image(e)
		data, err := os.ReadFile(path)
		if !ok || err != nil || len(data) != 3 || !c.HasImage(e.Key, e.Label, 3) || c.HasImage(e.Key, e.Label, 2) ||
			c.HasImage(e.Key, "other", 3) {
			t.Errorf("%v, %v, %q", ok, err, data)
		}
	}
	for _, bad := range []string{"", "../x", "a/b", "-a", strings.Repeat("a", 200)} {
		wantError(t, c.PutImage(bad, nil), "")
	}
}

// A damaged image counts as absent and is removed.
func TestDamagedImage(t *testing.T) {
	for name, damage := range map[string]func(path string) error{
		"truncated": func(path string) error { return os.Truncate(path, 2) },
		"flipped":   func(path string) error { return os.WriteFile(path, []byte("ima9e"), 0o644) },
	} {
		for _, way := range []string{"used", "verified"} {
			c := newCache(t)
			must(t, c.PutImage("b", []byte("image")))
			e := labelled(t, c, "b")[0]
			must(t, damage(e.path))
			if way == "used" {
				if _, ok := c.Image(e); ok {
					t.Errorf("%s: the damaged image was returned", name)
				}
			} else if s, err := c.Verify(nil); err != nil || s.Removed != 1 {
				t.Errorf("%s: %+v, %v", name, s, err)
			}
			wantEqual(t, len(labelled(t, c, "b")), 0, name, way)
		}
	}
}

// Images and keyed entries share one limit; the last used ones stay.
func TestImagesShareTheLimit(t *testing.T) {
	c := newCache(t)
	keep(t, c, 1)
	for n := range 3 {
		must(t, c.PutImage(imageLabel(n), bytes.Repeat([]byte{byte(n)}, 1000)))
		usedAgo(t, labelled(t, c, imageLabel(n))[0].path, time.Duration(10-n)*time.Minute)
	}
	usedAgo(t, c.path(key(1)), time.Hour)
	if _, ok := c.Image(labelled(t, c, imageLabel(0))[0]); !ok { // marks it as used last
		t.Fatal("the entry is missing")
	}
	s, err := c.GC(2500)
	if err != nil || s.Entries != 2 || s.Removed != 2 {
		t.Errorf("%+v, %v", s, err)
	}
	for n, want := range []int{1, 0, 1} {
		wantEqual(t, len(labelled(t, c, imageLabel(n))), want, n)
	}
}
