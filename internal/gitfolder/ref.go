// Package gitfolder turns a git URL and a revision into a folder with the files of exactly that commit.
//
// It fetches a commit at most once; afterwards the folder needs no network. It does not know what the files are for,
// and changes no repository.
package gitfolder

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/files/jsonfile"
)

// A Ref names a folder in a git repository: URL, URL//DIR, with @REVISION.
type Ref struct {
	URL      string // as git takes it
	Dir      string // slash path of the folder, or a file, in the repository; "" is the repository itself
	Revision string // a branch, a tag, a commit's 40 digits, HEAD, or a full name such as refs/heads/main
}

// schemes are those of URLs that can be fetched.
var schemes = []string{"https", "http", "ssh", "file"}

var (
	hasScheme = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*://`)
	scpLike   = regexp.MustCompile(`^[\w.-]+@[\w.-]+:`) // git@host:path
	commitRE  = jsonfile.Forms["commit"].Pattern
)

// IsRef reports whether a text is meant as a Ref, and not as a name or a path.
func IsRef(text string) bool { return hasScheme.MatchString(text) || scpLike.MatchString(text) }

// Parse reads URL[//DIR]@REVISION. Errors are of class config.
func Parse(text string) (Ref, error) {
	const form = "write URL@REVISION or URL//FOLDER@REVISION, with a branch, a tag or a commit"
	if hasControl(text) {
		return Ref{}, failure.New(failure.Config, form, "the git URL contains a control character")
	}

	start := hasScheme.FindString(text)
	rest := text[len(start):]
	path := strings.IndexByte(rest, '/')
	if start == "" {
		path = strings.IndexByte(rest, ':')
		if !scpLike.MatchString(text) {
			return Ref{}, failure.New(failure.Config, form, "%q is not a git URL", text)
		}
	}

	// An @ before the path is that of a user's name.
	at := strings.LastIndexByte(rest, '@')
	if path < 0 || at < path || at == len(rest)-1 {
		return Ref{}, failure.New(failure.Config, form, "%s: no revision", text)
	}

	r := Ref{Revision: rest[at+1:]}
	below, dir, _ := strings.Cut(rest[path+1:at], "//")
	r.URL, r.Dir = start+rest[:path+1]+strings.TrimRight(below, "/"), strings.Trim(dir, "/")
	return r, r.check(text)
}

func (r Ref) check(text string) error {
	if strings.Trim(r.URL[strings.LastIndexAny(r.URL, "/:")+1:], ".") == "" {
		return failure.Errorf(failure.Config, "%s: no repository in the URL", text)
	}
	if strings.HasPrefix(r.Revision, "-") || strings.ContainsAny(r.Revision, " ~^:?*[\\\x00") {
		return failure.New(failure.Config, "write a branch, a tag or a commit", "%s: %q is not a revision", text, r.Revision)
	}

	for _, part := range strings.Split(r.Dir, "/") {
		if r.Dir != "" && checkName(part) != nil {
			return failure.Errorf(failure.Config, "%s: %q is not a folder in the repository", text, r.Dir)
		}
	}
	return checkURL(r.URL)
}

// hasControl reports whether a text contains a control character, such as the end of a line.
func hasControl(text string) bool { return strings.ContainsFunc(text, unicode.IsControl) }

// checkURL refuses schemes that are not fetched, passwords, which would stand in files, and control characters, also
// in %XX: programs would read what follows them as something else.
func checkURL(text string) error {
	if hasControl(text) { // the text may have a password
		return failure.New(failure.Config, "leave it out", "the git URL contains a control character")
	}
	if !hasScheme.MatchString(text) {
		return nil // git@host:path
	}

	u, err := url.Parse(text)
	if err != nil {
		return failure.Errorf(failure.Config, "the git URL cannot be read: %w", err.(*url.Error).Err)
	}
	if !slices.Contains(schemes, u.Scheme) {
		return failure.New(failure.Config, "use one of: "+strings.Join(schemes, ", "), "%s: scheme %s is not supported",
			u.Redacted(), u.Scheme)
	}
	if _, has := u.User.Password(); has {
		return failure.New(failure.Config, "leave it out, and store it with git's credential helper",
			"%s: the URL contains a password", u.Redacted())
	}

	for _, part := range []string{u.User.Username(), u.Host, u.Path, u.RawQuery, u.Fragment} {
		if hasControl(part) {
			return failure.New(failure.Config, "leave it out", "%s: the URL contains a control character", u.Redacted())
		}
	}
	if u.Host == "" && u.Scheme != "file" {
		return failure.New(failure.Config, "write the server's name after ://", "%s: no server in the URL", text)
	}
	return nil
}

// String returns the text that Parse reads.
func (r Ref) String() string { return r.folder() + "@" + r.Revision }

// folder is the text without the revision.
func (r Ref) folder() string {
	if r.Dir == "" {
		return r.URL
	}
	return r.URL + "//" + r.Dir
}

// Name returns the last word of the folder, without .git.
func (r Ref) Name() string {
	f := r.folder()
	return strings.TrimSuffix(f[strings.LastIndexAny(f, "/:")+1:], ".git")
}

// isCommit reports whether the revision names one commit for ever.
func (r Ref) isCommit() bool { return commitRE.MatchString(r.Revision) }
