//go:build browser && linux

package web

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/muster-dev/muster/internal/people/control"
	"github.com/muster-dev/muster/internal/people/session"
)

// startChromiumAs starts a browser of a user of the machine.
func startChromiumAs(t *testing.T, uid uint32) *chromium {
	t.Helper()
	folder, err := os.MkdirTemp("/tmp", "muster-browser-") //nolint:usetesting // another user passes through it
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	must(t, os.Chown(folder, int(uid), int(uid)))
	return launch(t, folder, func(cmd *exec.Cmd) {
		cmd.Dir, cmd.Env = folder, []string{"HOME=" + folder, "PATH=/usr/bin:/bin"}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	})
}

// TestBrowserUsers: browsers of two users of a machine at one console. Each shows the user's own; a link,
// and a cookie with its key, of the other open nothing.
func TestBrowserUsers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to start browsers of other users")
	}
	s := newSite(t, func(o *Options) {
		o.Name = func(_ context.Context, user string) string { return map[string]string{ada.User: "ada"}[user] }
		o.Admit = Connections{Owner: func(c session.Caller) (uint32, bool) { return control.UIDOf(c.User) }}.Admit
		o.UserConnections = 64
	})
	eve := session.Caller{User: "unix:61002"}
	hers, theirs := startChromiumAs(t, 61001).open("en"), startChromiumAs(t, 61002).open("en")
	hers.signIn(s.link(t))
	link, err := s.Link(t.Context(), eve, 0)
	must(t, err)
	theirs.signIn(link)
	for p, user := range map[*tab]string{hers: ada.User, theirs: eve.User} {
		if text := p.text("who"); !strings.Contains(text, "the API knows you as api:"+user) {
			t.Errorf("the page of %s says %q", user, text)
		}
		if n := len(s.table.List(user)); n != 1 {
			t.Errorf("%s has %d sessions", user, n)
		}
	}
	thief := theirs.openIn(theirs.profile, "en")
	thief.visit(s.link(t)) // ada's
	thief.wait("document.getElementById('message').innerText.includes('the connection comes from uid 61002')")
	if n := len(s.table.List(ada.User)); n != 1 {
		t.Errorf("a link of ada's made %d sessions", n)
	}
	var key string
	must(t, hers.eval("localStorage.getItem('muster-key')", &key))
	quoted, err := json.Marshal(key)
	must(t, err)
	stolen := []map[string]any{}
	for _, c := range hers.cookies() {
		stolen = append(stolen, map[string]any{"name": c.Name, "value": c.Value, "url": localOrigin(s.port), "path": c.Path, "httpOnly": true, "secure": true, "sameSite": "Strict"})
	}
	must(t, thief.call("", "Storage.setCookies", map[string]any{"cookies": stolen, "browserContextId": thief.profile}, nil))
	must(t, thief.eval("localStorage.setItem('muster-key', "+string(quoted)+")", nil))
	var refusal string
	must(t, thief.eval("fetch('/api/me', {headers: {'X-Muster-Key': "+string(quoted)+"}}).then((a) => a.text())", &refusal))
	if !strings.HasPrefix(refusal, "unix:61001 may not use") || !strings.Contains(refusal, "the connection comes from uid 61002") {
		t.Errorf("a stolen session gets %q", refusal)
	}
	thief.visit(localOrigin(s.port) + "/")
	thief.wait("document.body.dataset.state === 'out'")
	if text := thief.text("gpus"); strings.Contains(text, "61001") {
		t.Errorf("a stolen session shows %q", text)
	}
	hers.visit(localOrigin(s.port) + "/") // hers goes on
	hers.wait("document.body.dataset.state === 'watching'")
}
