// This file gets credentials for HTTP from where git itself has them. Keys for SSH come from the agent, as go-git does
// without being asked.

package gitfolder

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing/transport"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"
)

// credentials returns what git's credential helpers have for a URL, nil if they have nothing. Git asks nobody on a
// terminal. Nothing is stored.
func credentials(ctx context.Context, text string) transport.AuthMethod {
	git, err := exec.LookPath("git")
	u, failed := url.Parse(text)
	if err != nil || failed != nil || u.Scheme != "http" && u.Scheme != "https" {
		return nil
	}
	cmd := exec.CommandContext(ctx, git, "credential", "fill")
	cmd.Env = append(os.Environ(), "GIT_TERMINAL_PROMPT=0")
	cmd.WaitDelay = time.Second
	asked := fmt.Sprintf("protocol=%s\nhost=%s\npath=%s\n", u.Scheme, u.Host, strings.TrimPrefix(u.Path, "/"))
	if name := u.User.Username(); name != "" {
		asked += "username=" + name + "\n"
	}
	cmd.Stdin = strings.NewReader(asked + "\n")
	out, err := cmd.Output()
	if err != nil {
		return nil
	}
	auth := &githttp.BasicAuth{}
	for line := range strings.Lines(string(out)) {
		switch name, value, _ := strings.Cut(strings.TrimRight(line, "\r\n"), "="); name {
		case "username":
			auth.Username = value
		case "password":
			auth.Password = value
		}
	}
	if auth.Password == "" {
		return nil
	}
	return auth
}
