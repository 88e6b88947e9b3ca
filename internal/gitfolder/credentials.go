// This file gets credentials for HTTP from where git itself has them. Keys for SSH come from the agent, as go-git does
// without being asked.

package gitfolder

import (
	"context"
	"net/url"
	"os"
	"os/exec"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/transport"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"

	"github.com/boardsmith/boardsmith/internal/command"
)

// credentials returns what git's credential helpers have for a URL, nil if they have nothing. Git asks nobody on a
// terminal. Nothing is stored.
func credentials(ctx context.Context, text string) transport.AuthMethod {
	git, err := exec.LookPath("git")
	question, ok := credentialQuestion(text)
	if err != nil || !ok {
		return nil
	}

	out, _, err := command.Command{ // it ends also the helper's processes
		Path: git, Args: []string{"credential", "fill"}, Env: append(os.Environ(), "GIT_TERMINAL_PROMPT=0"),
		Stdin: strings.NewReader(question), Grace: grace,
	}.Capture(ctx)
	if err != nil {
		return nil
	}

	auth := &githttp.BasicAuth{}
	for line := range strings.Lines(out) {
		switch name, value, _ := strings.Cut(strings.TrimRight(line, "\r\n"), "="); name {
		case "username":
			auth.Username = value
		case "password":
			auth.Password = value
		}
	}

	return auth
}

// credentialQuestion returns what git credential reads for a URL: one attribute a line. ok is false for a URL that has
// no password, or whose parts would become further attributes, such as another host.
func credentialQuestion(text string) (question string, ok bool) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return "", false
	}

	attributes := [][2]string{
		{"protocol", u.Scheme}, {"host", u.Host}, {"path", strings.TrimPrefix(u.Path, "/")},
	}
	if name := u.User.Username(); name != "" {
		attributes = append(attributes, [2]string{"username", name})
	}

	for _, a := range attributes {
		// The end of a line would begin another attribute.
		if hasControl(a[1]) {
			return "", false
		}
		question += a[0] + "=" + a[1] + "\n"
	}
	return question + "\n", true
}
