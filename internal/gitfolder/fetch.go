// This file fetches one commit of a repository into an object store.

package gitfolder

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/config"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/transport"
	"github.com/go-git/go-git/v5/plumbing/transport/client"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"
	"github.com/go-git/go-git/v5/storage/filesystem"
	"github.com/go-git/go-git/v5/storage/filesystem/dotgit"
	"github.com/go-git/go-git/v5/storage/memory"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/files/jsonfile"
)

const (
	watchEvery = 50 * time.Millisecond // how often the size of what was fetched is compared with the limit
	grace      = time.Second           // how long a git or a connection that is told to stop may still run
)

var (
	errSlow    = errors.New("the server took too long")
	errTooMuch = errors.New("the repository is too large")
)

// smartOnly is HTTP with a server that answers by git's smart protocol, which is the only one that go-git reads: the
// references that any other server sends would be an answer that breaks off.
type smartOnly struct{ http.RoundTripper }

func init() {
	for _, scheme := range []string{"http", "https"} {
		client.InstallProtocol(scheme, githttp.NewClient(&http.Client{Transport: smartOnly{http.DefaultTransport}}))
	}
}

func (s smartOnly) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := s.RoundTripper.RoundTrip(r)
	if err != nil || answer.StatusCode != http.StatusOK || !strings.HasSuffix(r.URL.Path, "/info/refs") ||
		strings.HasPrefix(answer.Header.Get("Content-Type"), "application/x-git-") {
		return answer, err
	}

	answer.Body.Close()
	return nil, failure.New(failure.Config, "check the URL; of a server that only lists files, clone the repository and "+
		"name the clone: file:///FOLDER", "the server does not speak git's smart protocol")
}

// A remote is a repository of which the references are known.
type remote struct {
	url  string
	auth transport.AuthMethod     // nil: none
	refs map[string]plumbing.Hash // by full name; an annotated tag's commit has the tag's name with peeled
}

const peeled = "^{}"

// connect opens a repository, also one that another repository names. If the server asks for a password, it tries the
// one that git has.
func connect(ctx context.Context, url string) (*remote, error) {
	if err := checkURL(url); err != nil {
		return nil, err
	}

	r := &remote{url: url}
	err := r.list(ctx)
	if !errors.Is(err, transport.ErrAuthenticationRequired) {
		return r, err
	}

	if r.auth = credentials(ctx, url); r.auth == nil {
		return nil, failure.New(failure.Config, "check the URL; for a private repository, make this succeed without a "+
			"question: git ls-remote "+url, "fetch %s: the server asks for a password, and git has none for it", url)
	}

	err = r.list(ctx)
	if errors.Is(err, transport.ErrAuthenticationRequired) || errors.Is(err, transport.ErrAuthorizationFailed) {
		return nil, failure.New(failure.Config, "check the password that git has: git ls-remote "+url,
			"fetch %s: the server refused git's user name or password", url)
	}
	return r, err
}

// list reads the references of the repository.
func (r *remote) list(ctx context.Context) error {
	var found []*plumbing.Reference
	from := git.NewRemote(nil, &config.RemoteConfig{Name: git.DefaultRemoteName, URLs: []string{r.url}})
	err := within(ctx, func(ctx context.Context) (err error) {
		found, err = from.ListContext(ctx, &git.ListOptions{Auth: r.auth, PeelingOption: git.AppendPeeled})
		return err
	})
	if err != nil {
		return err
	}

	r.refs = map[string]plumbing.Hash{}
	for _, ref := range found {
		r.refs[ref.Name().String()] = ref.Hash()
	}

	// A symbolic reference may come before its target.
	for _, ref := range found {
		if ref.Type() == plumbing.SymbolicReference {
			r.refs[ref.Name().String()] = r.refs[ref.Target().String()]
		}
	}
	return nil
}

// within returns soon after ctx has ended, also if f does not, as an SSH client that waits for its server.
func within(ctx context.Context, f func(context.Context) error) error {
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()

	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}

	select {
	case <-done:
	case <-time.After(grace):
	}
	return context.Cause(ctx)
}

// filling is within, for an f that fills a folder: it is ended when there are more bytes in it than most.
func filling(ctx context.Context, dir string, most int64, f func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	watched := make(chan struct{})

	// The watcher has ended before the caller goes on with the folder.
	defer func() { cancel(nil); <-watched }()

	go func() {
		defer close(watched)
		tick := time.NewTicker(watchEvery)
		defer tick.Stop()
		for ctx.Err() == nil {
			select {
			case <-tick.C:
				if sizeOf(dir) > most {
					cancel(errTooMuch)
				}
			case <-ctx.Done():
			}
		}
	}()

	return within(ctx, f)
}

// sizeOf returns how many bytes are in a folder, whose files come and go.
func sizeOf(dir string) (n int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // it has gone
		}
		if info, err := d.Info(); err == nil && info.Mode().IsRegular() {
			n += info.Size()
		}
		return nil
	})
	return n
}

// resolve returns the commit of a revision.
func (r *remote) resolve(revision string) (string, error) {
	if commitRE.MatchString(revision) {
		return revision, nil
	}

	// A short name is that of a branch or a tag; a full one stands for itself.
	names := []string{"refs/heads/" + revision, "refs/tags/" + revision, revision}
	names = slices.DeleteFunc(names, func(name string) bool { return r.refs[name].IsZero() })
	switch {
	case len(names) == 0:
		return "", r.unknown(revision)
	case len(names) > 1 && revision != "HEAD":
		return "", failure.New(failure.Config, "write one of: "+strings.Join(names, ", "),
			"%s: revision %s is a branch and a tag", r.url, revision)
	}

	// If several have the name HEAD, the last one is HEAD itself.
	name := names[len(names)-1]

	// An annotated tag is an object of its own, and its commit has this name.
	if commit, ok := r.refs[name+peeled]; ok {
		return commit.String(), nil
	}
	return r.refs[name].String(), nil
}

func (r *remote) unknown(revision string) error {
	var names []string
	for name := range r.refs {
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

// A missingCommit reports a repository without the commit that was asked for.
type missingCommit struct{ url, commit string }

func (e *missingCommit) Error() string { return e.url + " has no commit " + e.commit }

// missing returns an error about a commit that the repository lacks, if err is of that kind; else err.
func (r *remote) missing(commit string, err error) error {
	if err == nil || !errors.Is(err, plumbing.ErrObjectNotFound) && !strings.Contains(err.Error(), "not our ref") {
		return err
	}
	return failure.New(failure.Config, "check the commit; it may be of another repository", "%w",
		&missingCommit{r.url, commit})
}

// objects has git's objects in files. The references are in memory: a server chooses their names.
type objects struct {
	*memory.Storage
	*filesystem.ObjectStorage
}

// unsent is in the error of a request that was not sent whole. A server that refuses a commit may end at its name:
// go-git then fails with the rest of the request, and does not read the answer.
const unsent = "sending upload-req message"

// attempts bounds how often such a request is made.
const attempts = 4

// fetch gets a commit and its files into the folder dir, with at most that many bytes.
func (r *remote) fetch(ctx context.Context, commit, dir string, most int64) (*object.Commit, *objects, error) {
	store := &objects{memory.NewStorage(), filesystem.NewObjectStorage(dotgit.New(osfs.New(dir)),
		cache.NewObjectLRUDefault())}
	from := git.NewRemote(store, &config.RemoteConfig{Name: git.DefaultRemoteName, URLs: []string{r.url}})

	get := func(depth int, what ...config.RefSpec) (err error) {
		for range attempts {
			err = filling(ctx, dir, most, func(ctx context.Context) error {
				return from.FetchContext(ctx, &git.FetchOptions{RefSpecs: what, Depth: depth, Tags: git.NoTags, Auth: r.auth})
			})
			if err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), unsent) {
				break
			}
		}
		return err
	}

	err := get(1, r.spec(commit))
	// A server that sends no single commit sends all branches and tags.
	if errors.Is(err, git.ErrExactSHA1NotSupported) {
		err = get(0, "+refs/*:refs/*")
	}

	var c *object.Commit
	if err == nil {
		c, err = object.GetCommit(store, plumbing.NewHash(commit))
	}
	if err != nil {
		return nil, nil, r.missing(commit, errors.Join(err, store.Close()))
	}
	return c, store, nil
}

// spec asks for a reference to the commit or, if there is none, for the commit itself.
func (r *remote) spec(commit string) config.RefSpec {
	from := commit
	for _, name := range slices.Sorted(maps.Keys(r.refs)) {
		if r.refs[name].String() == commit {
			from = strings.TrimSuffix(name, peeled)
			break
		}
	}
	return config.RefSpec("+" + from + ":refs/heads/wanted")
}

// isOfNetwork reports whether a server was not reached, or its answer broke off: another attempt may succeed.
func isOfNetwork(err error) bool {
	name, connection := new(net.DNSError), new(net.OpError)
	return errors.As(err, &name) || errors.As(err, &connection) || errors.Is(err, io.ErrUnexpectedEOF)
}

// classed gives an error of a fetch its class and the next step.
func classed(ctx context.Context, url string, err error) error {
	var advised interface{ NextStep() string }
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return failure.Stopped(ctx, "fetch %s", url)
	case errors.As(err, &advised):
		return err
	case errors.Is(err, exec.ErrNotFound):
		return failure.New(failure.ToolMissing, "apt-get install git", "fetch %s: repositories of this computer need git: %w",
			url, err)
	case errors.Is(err, errSlow):
		return failure.New(failure.Timeout, "check the network, then try again", "fetch %s: %w", url, err)
	case isOfNetwork(err):
		return failure.New(failure.Network, "check the network, then try again", "fetch %s: %w", url, err)
	}
	return failure.New(failure.Config, "check the URL and the network: git ls-remote "+url, "fetch %s: %w", url, err)
}
