// This file fetches one commit of a repository into an object store.

package gitfolder

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/sideband"
	"github.com/go-git/go-git/v5/plumbing/transport"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"
	"github.com/go-git/go-git/v5/plumbing/transport/ssh"
	"github.com/go-git/go-git/v5/storage/filesystem"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/jsonfile"
)

// A remote is a repository of which the references are known.
type remote struct {
	watch   *watch
	url     string
	session session
	refs    *packp.AdvRefs
	answer  io.ReadCloser // of the server, until it is read; else nil
}

// close ends the session. An SSH client that still reads is ended with the watch, or when it has read all.
func (r *remote) close() {
	if _, here := r.session.(*local); here || r.answer == nil {
		r.session.Close()
		return
	}
	go func() {
		_, _ = io.Copy(io.Discard, r.answer)
		r.answer.Close()
		r.session.Close()
	}()
}

// connect opens a repository, also one that another repository names. If the server asks for a password, it tries the
// one that git has.
func connect(w *watch, url string) (*remote, error) {
	if err := checkURL(url); err != nil {
		return nil, err
	}
	w.resume()
	r, err := open(w, url, nil)
	if !errors.Is(err, transport.ErrAuthenticationRequired) {
		return r, err
	}
	auth := credentials(w.ctx, url)
	if auth == nil {
		return nil, failure.New(failure.Config, "check the URL; for a private repository, make this succeed without a "+
			"question: git ls-remote "+url, "fetch %s: the server asks for a password, and git has none for it", url)
	}
	r, err = open(w, url, auth)
	if errors.Is(err, transport.ErrAuthenticationRequired) || errors.Is(err, transport.ErrAuthorizationFailed) {
		return nil, failure.New(failure.Config, "check the password that git has: git ls-remote "+url,
			"fetch %s: the server refused git's user name or password", url)
	}
	return r, err
}

func open(w *watch, url string, auth transport.AuthMethod) (*remote, error) {
	at, err := transport.NewEndpoint(url)
	if err != nil {
		return nil, err
	}
	var client transport.Transport
	switch at.Protocol {
	case "http", "https":
		client = githttp.NewClient(&http.Client{Transport: w})
	case "ssh":
		client = ssh.DefaultClient
	case "file":
		l, err := openLocal(w.ctx, at)
		if err != nil {
			return nil, err
		}
		return begin(w, url, l)
	default:
		return nil, fmt.Errorf("scheme %s is not supported", at.Protocol)
	}
	session, err := within(w.ctx, func() (transport.UploadPackSession, error) {
		return client.NewUploadPackSession(at, auth)
	})
	if err != nil {
		return nil, err
	}
	return begin(w, url, session)
}

// begin reads the references of a repository.
func begin(w *watch, url string, s session) (*remote, error) {
	refs, err := s.AdvertisedReferencesContext(w.ctx)
	if err != nil {
		s.Close()
		return nil, err
	}
	return &remote{watch: w, url: url, session: s, refs: refs}, nil
}

// within returns when ctx ends, also if connect does not, as that of SSH.
func within[T io.Closer](ctx context.Context, connect func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		v, err := connect()
		done <- result{v, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		go func() {
			if r := <-done; r.err == nil {
				r.value.Close()
			}
		}()
		var none T
		return none, context.Cause(ctx)
	}
}

// resolve returns the commit of a revision.
func (r *remote) resolve(revision string) (string, error) {
	if commitRE.MatchString(revision) {
		return revision, nil
	}
	if revision == "HEAD" && r.refs.Head != nil {
		return r.refs.Head.String(), nil
	}
	var found []string
	for _, name := range []string{"refs/heads/" + revision, "refs/tags/" + revision, revision} {
		if _, ok := r.refs.References[name]; ok {
			found = append(found, name)
		}
	}
	switch len(found) {
	case 1:
		if peeled, ok := r.refs.Peeled[found[0]]; ok {
			return peeled.String(), nil
		}
		return r.refs.References[found[0]].String(), nil
	case 0:
		return "", r.unknown(revision)
	}
	return "", failure.New(failure.Config, "write one of: "+strings.Join(found, ", "),
		"%s: revision %s is a branch and a tag", r.url, revision)
}

func (r *remote) unknown(revision string) error {
	var names []string
	for name := range r.refs.References {
		for _, kind := range []string{"refs/heads/", "refs/tags/"} {
			if short, ok := strings.CutPrefix(name, kind); ok {
				names = append(names, short)
			}
		}
	}
	slices.Sort(names)
	return failure.New(failure.Config, "git ls-remote "+r.url+" lists branches and tags; of a commit, write all 40 digits",
		"%s has no revision %s%s", r.url, revision, jsonfile.DidYouMean(revision, names))
}

// wants returns what to ask for to get a commit, and whether its history can be left out.
func (r *remote) wants(commit plumbing.Hash) (hashes []plumbing.Hash, alone bool) {
	shallow := r.refs.Capabilities.Supports(capability.Shallow)
	for _, name := range slices.Sorted(maps.Keys(r.refs.References)) {
		if h := r.refs.References[name]; h == commit || r.refs.Peeled[name] == commit {
			return []plumbing.Hash{h}, shallow
		}
	}
	for _, c := range []capability.Capability{capability.AllowReachableSHA1InWant, "allow-any-sha1-in-want"} {
		if r.refs.Capabilities.Supports(c) {
			return []plumbing.Hash{commit}, shallow
		}
	}
	hashes = slices.Collect(maps.Values(r.refs.References))
	slices.SortFunc(hashes, func(a, b plumbing.Hash) int { return bytes.Compare(a[:], b[:]) })
	return slices.Compact(hashes), false
}

// A missingCommit reports a repository without the commit that was asked for.
type missingCommit struct{ url, commit string }

func (e *missingCommit) Error() string { return e.url + " has no commit " + e.commit }

// missing returns that the repository has no such commit, if this is what err says; else err.
func (r *remote) missing(commit string, err error) error {
	if err == nil || !errors.Is(err, plumbing.ErrObjectNotFound) && !strings.Contains(err.Error(), "not our ref") {
		return err
	}
	return failure.New(failure.Config, "check the commit; it may be of another repository", "%w",
		&missingCommit{r.url, commit})
}

// fetch gets a commit and its files into the folder dir, which is for git's objects.
func (r *remote) fetch(commit, dir string) (c *object.Commit, err error) {
	hash := plumbing.NewHash(commit)
	req := packp.NewUploadPackRequestFromCapabilities(r.refs.Capabilities)
	var alone bool
	if req.Wants, alone = r.wants(hash); alone {
		req.Depth = packp.DepthCommits(1)
		_ = req.Capabilities.Set(capability.Shallow) // it takes no argument
	}
	if r.refs.Capabilities.Supports(capability.NoProgress) {
		_ = req.Capabilities.Set(capability.NoProgress)
	}
	r.watch.resume()
	answer, err := r.session.UploadPack(r.watch.ctx, req)
	if err != nil {
		return nil, r.missing(commit, err)
	}
	r.answer = answer
	objects := filesystem.NewStorage(osfs.New(dir), cache.NewObjectLRUDefault())
	defer func() { err = errors.Join(err, objects.Close()) }()
	if err := r.keepPack(r.pack(req, answer), objects, filepath.Join(dir, "pack")); err != nil {
		return nil, r.missing(commit, err)
	}
	r.answer = nil
	answer.Close()
	c, err = object.GetCommit(objects, hash)
	return c, r.missing(commit, err)
}

// pack reads the pack in a server's answer.
func (r *remote) pack(req *packp.UploadPackRequest, answer io.Reader) io.Reader {
	from := r.watch.reader(answer, r.watch.left)
	switch {
	case req.Capabilities.Supports(capability.Sideband64k):
		return sideband.NewDemuxer(sideband.Sideband64k, from)
	case req.Capabilities.Supports(capability.Sideband):
		return sideband.NewDemuxer(sideband.Sideband, from)
	}
	return from
}

// keepPack stores a pack's objects. It goes to a file first, and is checked there. Afterwards the watch is paused.
func (r *remote) keepPack(from io.Reader, objects *filesystem.Storage, temporary string) (err error) {
	f, err := os.OpenFile(temporary, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(temporary)) }()
	n, err := io.Copy(f, from)
	if err != nil {
		return err
	}
	r.watch.pause()
	r.watch.left -= n
	for _, use := range []func() error{
		func() error { return checkPack(f, r.watch.left) },
		func() error { return packfile.UpdateObjectStorage(objects, f) },
	} {
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return err
		}
		if err := use(); err != nil {
			return fmt.Errorf("the server's answer is damaged: %w", err)
		}
	}
	return nil
}
