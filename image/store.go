// This file finds images of earlier builds in the cache, so that an image named by a ledger, a history or a device
// can be flashed, debugged and explained after a later build of its project.

package image

import (
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/hashicorp/go-hclog"

	"github.com/boardsmith/boardsmith/cache"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/cachekey"
	"github.com/boardsmith/boardsmith/internal/files/abspath"
	"github.com/boardsmith/boardsmith/internal/firmware"
	"github.com/boardsmith/boardsmith/internal/nextstep"
)

// A Store holds images of earlier builds, in the cache. The zero value is the user's. It may be used from many
// goroutines.
type Store struct {
	Cache *cache.Cache // nil: the user's cache, or none on a system without a cache folder
	Log   hclog.Logger // nil: no log
}

func (s Store) log() hclog.Logger {
	if s.Log == nil {
		return hclog.NewNullLogger()
	}
	return s.Log
}

// label returns the image's label in the cache.
func (i *Image) label() string {
	return firmware.Label(i.ID(), i.Board, cachekey.Digest(landmarksJSON(i.Landmarks)))
}

// landmarksLabel is the cache's label of a template's landmarks, which its images share.
const landmarksLabel = "landmarks"

func landmarksJSON(l firmware.Landmarks) []byte {
	data, err := json.Marshal(l)
	if err != nil {
		panic(err) // it is a struct of strings
	}
	return data
}

func keepLandmarks(c *cache.Cache, l firmware.Landmarks) error {
	data := landmarksJSON(l)
	if c.HasImage(sha256.Sum256(data), landmarksLabel, int64(len(data))) {
		return nil
	}
	return c.PutImage(landmarksLabel, data)
}

// storedLandmarks returns the landmarks of an image in the cache.
func storedLandmarks(c *cache.Cache, of cache.EntryInfo) (l firmware.Landmarks, err error) {
	_, _, beginning, ok := firmware.ParseLabel(of.Label)
	if !ok {
		return l, errors.New("it is of another version of boardsmith")
	}

	// The image's label has only the beginning of their digest.
	list, err := c.Images(func(e cache.EntryInfo) bool {
		return e.Label == landmarksLabel && strings.HasPrefix(hex.EncodeToString(e.Key[:]), beginning)
	})
	if err != nil {
		return l, err
	}

	for _, e := range list {
		if path, ok := c.Image(e); ok {
			data, err := os.ReadFile(path)
			if err != nil {
				return l, err
			}
			err = json.Unmarshal(data, &l)
			return l, err
		}
	}
	return l, errors.New("the cache lacks its landmarks")
}

// Keep stores an image in the cache, unless it is there. It only logs errors of the cache.
func (s Store) Keep(i *Image) {
	c := cache.OrDefault(s.Cache)
	if c == nil {
		return
	}
	if err := keepImage(c, i); err != nil {
		s.log().Warn("the image could not be stored in the cache", "error", err)
	}
}

func keepImage(c *cache.Cache, i *Image) error {
	if err := keepLandmarks(c, i.Landmarks); err != nil {
		return err
	}

	info, err := os.Stat(i.Path)
	if err != nil {
		return err
	}
	digest, err := hex.DecodeString(i.Digest)
	if err != nil || len(digest) != sha256.Size {
		return fmt.Errorf("%q is no digest", i.Digest)
	}

	// Its content need not be read.
	if c.HasImage(cachekey.Key(digest), i.label(), info.Size()) {
		return nil
	}

	data, err := os.ReadFile(i.Path)
	if err != nil {
		return err
	}
	if sha256.Sum256(data) != [sha256.Size]byte(digest) {
		return fmt.Errorf("%s is no longer %v", i.Path, i)
	}
	return c.PutImage(i.label(), data)
}

// Intact returns the image with an existing file: its own or, if a later build replaced that, the cache's. Its paths
// are absolute. Without either file it returns an error of class config.
func (s Store) Intact(i *Image) (*Image, error) {
	// A copy: the caller's image stays as it is.
	absolute := *i
	abspath.Fix(&absolute.Path, &absolute.Map, &absolute.Bin, &absolute.Hex, &absolute.ExtraBin, &absolute.BuildDir)
	if !reflect.DeepEqual(absolute, *i) {
		i = &absolute
	}

	changed := i.unchanged()
	if changed == nil {
		return i, nil
	}

	c := cache.OrDefault(s.Cache)
	if c == nil {
		return nil, changed
	}

	list, _ := c.Images(func(of cache.EntryInfo) bool {
		return hex.EncodeToString(of.Key[:]) == i.Digest && of.Label == i.label()
	})
	for _, of := range list {
		if path, ok := c.Image(of); ok {
			// The other forms of the image were not kept.
			stored := *i
			stored.Path, stored.Map, stored.Bin, stored.Hex, stored.ExtraBin = path, "", "", "", ""
			return &stored, nil
		}
	}
	return nil, changed
}

// imageNameRE matches the beginning of a build id or of a digest, long enough to avoid accidental matches.
var imageNameRE = regexp.MustCompile(`^[0-9a-f]{6,64}$`)

// Find returns an image of an earlier build by the beginning of its build id or digest, at least six hexadecimal
// digits. Its file is the cache's; Map, Bin, Hex and ExtraBin are "". Of several files of one build that load the same
// bytes, it returns the last used. It returns an error of class config unless exactly one image matches.
func (s Store) Find(name string) (*Image, error) {
	return s.FindWhich(name, func(*Image) bool { return true })
}

// FindWhich is Find for one of several images with one build id: a command after the link does not change the id. Of
// several that match, it returns the one for which is returns true.
func (s Store) FindWhich(name string, is func(*Image) bool) (*Image, error) {
	if !imageNameRE.MatchString(name) {
		return nil, failure.New(failure.Config, nextstep.Target("cache:list")+" shows those there are",
			"%q is not the beginning of a build id or of an image's SHA-256 (6 to 64 hexadecimal digits)", name)
	}

	c := cache.OrDefault(s.Cache)
	if c == nil {
		return nil, failure.New(failure.Config, "set HOME or BOARDSMITH_HOME", "image %s: this system has no cache folder",
			name)
	}

	list, err := c.Images(func(of cache.EntryInfo) bool {
		return of.Label != landmarksLabel &&
			(strings.HasPrefix(of.Label, name) || strings.HasPrefix(hex.EncodeToString(of.Key[:]), name))
	})
	if err != nil {
		return nil, err
	}

	newest := map[string]*Image{}
	for _, of := range slices.Backward(list) { // reading marks as used: the newest last
		if path, ok := c.Image(of); ok {
			i, loads, err := storedImage(c, path, of)
			if err != nil {
				return nil, err
			}

			// Files of one build that load the same bytes are one image.
			newest[i.String()+loads] = i
		}
	}

	// Only several are compared, since that reads their files.
	images := slices.Collect(maps.Values(newest))
	if len(images) > 1 {
		images = slices.DeleteFunc(images, func(i *Image) bool { return !is(i) })
	}

	switch len(images) {
	case 0:
		return nil, failure.New(failure.Config,
			nextstep.Target("cache:list")+" shows those there are; build it again from its sources",
			"image %s is not in the cache",
			name)
	case 1:
		return images[0], nil
	}

	var names []string
	for _, i := range images {
		names = append(names, fmt.Sprintf("%v (SHA-256 %s)", i, i.Digest))
	}
	slices.Sort(names)
	return nil, failure.New(failure.Config, "use more digits", "%s is the beginning of %d images: %s", name, len(images),
		strings.Join(names, ", "))
}

// storedImage returns an image in the cache, and the digest of the bytes that it loads.
func storedImage(c *cache.Cache, path string, of cache.EntryInfo) (i *Image, loads string, err error) {
	marks, err := storedLandmarks(c, of)
	if err != nil {
		return nil, "", failure.New(failure.Config, "build it again", "%s: %w", path, err)
	}

	id, board, _, _ := firmware.ParseLabel(of.Label)
	i = &Image{Path: path, Digest: hex.EncodeToString(of.Key[:]), Board: board, UpToDate: true, Landmarks: marks}
	_, _ = hex.Decode(i.BuildID[:], []byte(id)) // the label's pattern says that it is one

	f, err := elf.Open(path)
	if err != nil {
		return nil, "", failure.New(failure.Config, "build it again", "%s: %w", path, err)
	}
	defer f.Close()
	i.Size = Size(firmware.SizeOf(f))

	segments, err := firmware.Loads(f, path)
	if err != nil {
		return nil, "", err
	}

	h := sha256.New()
	for _, s := range segments {
		fmt.Fprintf(h, "%x %x\n", s.Addr, sha256.Sum256(s.Data))
	}
	return i, hex.EncodeToString(h.Sum(nil)), nil
}
