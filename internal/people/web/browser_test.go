//go:build browser

package web

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/muster-dev/muster/internal/people/gate"
	"github.com/muster-dev/muster/internal/people/session"
)

// chromium is a real browser, which the test commands over its pipe (--remote-debugging-pipe).
type chromium struct {
	t    *testing.T
	out  io.Writer
	last atomic.Int64

	mu      sync.Mutex
	waiting map[int64]chan reply
	events  []event
}

type reply struct {
	Result json.RawMessage
	Error  *struct{ Message string }
}

type event struct {
	ID        int64
	SessionID string
	Method    string
	Params    json.RawMessage
	reply
}

// program returns the name of the browser.
func program(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium-headless-shell", "chromium", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("there is no Chromium: hack/browser-deps installs one")
	return ""
}

func startChromium(t *testing.T) *chromium {
	t.Helper()
	return launch(t, t.TempDir(), func(*exec.Cmd) {})
}

// launch starts a browser with its data in a folder, by a command that a test changes before.
func launch(t *testing.T, folder string, change func(*exec.Cmd)) *chromium {
	t.Helper()
	theirs, in, err := os.Pipe()
	must(t, err)
	out, theirOut, err := os.Pipe()
	must(t, err)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 4*time.Minute)
	cmd := exec.CommandContext(ctx, program(t), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
		"--remote-debugging-pipe", "--user-data-dir="+folder, "--window-size=1000,800", "about:blank")
	cmd.ExtraFiles = []*os.File{theirs, theirOut}
	change(cmd)
	must(t, cmd.Start())
	must(t, errors.Join(theirs.Close(), theirOut.Close()))
	b := &chromium{t: t, out: in, waiting: map[int64]chan reply{}}
	read := make(chan struct{})
	go func() { defer close(read); b.read(out) }()
	t.Cleanup(func() {
		_ = b.call("", "Browser.close", map[string]any{}, nil) // so that all its processes end
		_ = cmd.Wait()
		cancel()
		_ = in.Close()
		_ = out.Close()
		<-read
	})
	return b
}

// read passes replies on and keeps events, until the browser ends.
func (b *chromium) read(from io.Reader) {
	in := bufio.NewReaderSize(from, 1<<20)
	for {
		text, err := in.ReadBytes(0)
		var e event
		if err == nil {
			err = json.Unmarshal(text[:len(text)-1], &e)
		}
		b.mu.Lock()
		if err != nil {
			for _, c := range b.waiting {
				close(c)
			}
			b.waiting = nil
			b.mu.Unlock()
			return
		}
		if c := b.waiting[e.ID]; c != nil {
			delete(b.waiting, e.ID)
			c <- e.reply
		} else {
			b.events = append(b.events, e)
		}
		b.mu.Unlock()
	}
}

func (b *chromium) call(tab, method string, params, result any) error {
	id := b.last.Add(1)
	answer := make(chan reply, 1)
	b.mu.Lock()
	if b.waiting == nil {
		b.mu.Unlock()
		return errors.New("the browser has ended")
	}
	b.waiting[id] = answer
	b.mu.Unlock()
	text, err := json.Marshal(map[string]any{"id": id, "method": method, "params": params, "sessionId": tab})
	if err != nil {
		return err
	}
	if tab == "" {
		text = []byte(strings.Replace(string(text), `,"sessionId":""`, "", 1))
	}
	if _, err := b.out.Write(append(text, 0)); err != nil {
		return err
	}
	got, ok := <-answer
	switch {
	case !ok:
		return errors.New("the browser has ended")
	case got.Error != nil:
		return fmt.Errorf("%s: %s", method, got.Error.Message)
	case result != nil:
		return json.Unmarshal(got.Result, result)
	}
	return nil
}

// tab is one page of its own profile: no cookies are shared.
type tab struct {
	*chromium
	id, profile string
}

func (b *chromium) open(languages string) *tab {
	b.t.Helper()
	var profile struct{ BrowserContextID string }
	must(b.t, b.call("", "Target.createBrowserContext", map[string]any{}, &profile))
	return b.openIn(profile.BrowserContextID, languages)
}

// openIn opens another page of a profile.
func (b *chromium) openIn(profile, languages string) *tab {
	b.t.Helper()
	var target struct{ TargetID string }
	must(b.t, b.call("", "Target.createTarget", map[string]any{"url": "about:blank", "browserContextId": profile, "width": 1000, "height": 800}, &target))
	var attached struct{ SessionID string }
	must(b.t, b.call("", "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached))
	p := &tab{b, attached.SessionID, profile}
	for _, domain := range []string{"Page", "Runtime", "Network", "Log", "Accessibility"} {
		must(b.t, p.send(domain+".enable", map[string]any{}, nil))
	}
	must(b.t, p.send("Network.setUserAgentOverride", map[string]any{"userAgent": "Chromium of the test", "acceptLanguage": languages}, nil))
	return p
}

func (p *tab) send(method string, params, result any) error {
	return p.call(p.id, method, params, result)
}

func (p *tab) visit(address string) {
	p.t.Helper()
	must(p.t, p.send("Page.navigate", map[string]any{"url": address}, nil))
}

// eval runs an expression, which may be a promise, in the page.
func (p *tab) eval(expression string, into any) error {
	var got struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails *struct {
			Text      string
			Exception struct{ Description string }
		}
	}
	if err := p.send("Runtime.evaluate", map[string]any{"expression": expression, "awaitPromise": true, "returnByValue": true, "userGesture": true}, &got); err != nil {
		return err
	}
	if got.ExceptionDetails != nil {
		return errors.New(got.ExceptionDetails.Text + " " + got.ExceptionDetails.Exception.Description)
	}
	if into == nil || got.Result.Value == nil {
		return nil
	}
	return json.Unmarshal(got.Result.Value, into)
}

// wait waits until a condition is true in the page, over navigations.
func (p *tab) wait(condition string) {
	p.t.Helper()
	deadline := time.Now().Add(40 * time.Second)
	var last error
	for time.Now().Before(deadline) {
		var is bool
		// The page looks after each frame, for a second.
		last = p.eval(`new Promise((done) => { const end = Date.now() + 1000; (function look() {
			let is = false; try { is = !!(`+condition+`); } catch (e) {}
			if (is || Date.now() > end) done(is); else setTimeout(look, 20); })(); })`, &is)
		if last == nil && is {
			return
		}
	}
	var text string
	_ = p.eval("document.body.innerText", &text)
	p.t.Fatalf("waited in vain for %s (%v); the page says %q", condition, last, text)
}

func (p *tab) text(id string) string {
	p.t.Helper()
	var text string
	must(p.t, p.eval("document.getElementById('"+id+"').innerText", &text))
	return text
}

func (p *tab) click(selector string) {
	p.t.Helper()
	must(p.t, p.eval("document.querySelector('"+selector+"').click()", nil))
}

// shoot keeps a picture in the folder of $MUSTER_SCREENSHOTS, for people.
func (p *tab) shoot(name string) {
	p.t.Helper()
	folder := os.Getenv("MUSTER_SCREENSHOTS")
	if folder == "" {
		return
	}
	var picture struct{ Data string }
	must(p.t, p.send("Page.captureScreenshot", map[string]any{"format": "png"}, &picture))
	raw, err := base64.StdEncoding.DecodeString(picture.Data)
	must(p.t, err)
	must(p.t, os.WriteFile(filepath.Join(folder, name+".png"), raw, 0o600))
}

type cookie struct {
	Name, Value, Domain, Path, SameSite string
	HTTPOnly, Secure                    bool
}

func (p *tab) cookies() map[string]cookie {
	p.t.Helper()
	var got struct{ Cookies []cookie }
	must(p.t, p.call("", "Storage.getCookies", map[string]any{"browserContextId": p.profile}, &got))
	all := map[string]cookie{}
	for _, c := range got.Cookies {
		all[c.Name] = c
	}
	return all
}

// signIn opens a link and clicks, as a user does.
func (p *tab) signIn(link string) {
	p.t.Helper()
	p.visit("about:blank") // a link after a link changes the fragment only
	p.visit(link)
	p.wait("document.getElementById('enter').checkVisibility()")
	var address string
	must(p.t, p.eval("location.href", &address))
	if strings.Contains(address, "#") || strings.Contains(address, "muster-link") {
		p.t.Errorf("the address bar keeps the link: %s", address)
	}
	p.click("#enter")
	p.wait("document.body.dataset.state === 'watching' && document.querySelectorAll('#gpus tr').length === 3 && document.querySelectorAll('#sessions tr').length > 0")
}

// check fails for errors of the console of the browser, such as violations of the policy of content, and
// for requests to other servers.
func (b *chromium) check(t *testing.T, origins ...string) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.events {
		switch e.Method {
		case "Log.entryAdded":
			var entry struct {
				Entry struct{ Source, Level, Text string }
			}
			must(t, json.Unmarshal(e.Params, &entry))
			if entry.Entry.Source == "security" || strings.Contains(entry.Entry.Text, "Content Security Policy") {
				t.Errorf("the browser says: %s", entry.Entry.Text)
			}
		case "Runtime.exceptionThrown":
			t.Errorf("a script failed: %s", e.Params)
		case "Network.requestWillBeSent":
			var sent struct{ Request struct{ URL string } }
			must(t, json.Unmarshal(e.Params, &sent))
			own := strings.HasPrefix(sent.Request.URL, "data:")
			for _, origin := range origins {
				own = own || strings.HasPrefix(sent.Request.URL, origin+"/")
			}
			if !own {
				t.Errorf("the page asks another server: %s", sent.Request.URL)
			}
		}
	}
}

// console returns a site for the browser, whose links are of this test.
func console(t *testing.T) (*site, string) {
	t.Helper()
	s := newSite(t, func(o *Options) {
		o.Name = func(context.Context, string) string { return "ada" }
		o.Admit = Connections{Owner: func(session.Caller) (uint32, bool) { return uint32(os.Geteuid()), true }}.Admit //nolint:gosec // a uid
	})
	return s, localOrigin(s.port)
}

func (s *site) link(t *testing.T) string {
	t.Helper()
	link, err := s.Link(t.Context(), ada, 0)
	must(t, err)
	return link
}

// TestBrowser: sign in, the cookie, a second session that is revoked by a button, sign-out.
func TestBrowser(t *testing.T) {
	b := startChromium(t)
	s, origin := console(t)
	p := b.open("en-GB,en")
	link := s.link(t)
	p.visit(link)
	p.wait("document.getElementById('enter').checkVisibility()")
	if got := p.text("message"); got != "You are about to sign in as ada (unix:61001)." {
		t.Errorf("the page of the link says %q", got)
	}
	if n := len(s.table.List(ada.User)); n != 0 {
		t.Errorf("%d sessions before the click", n)
	}
	p.shoot("enter-en")
	p.visit(s.link(t)) // in the same tab: the page loads again, for this link
	p.wait("performance.getEntriesByType('navigation')[0].type === 'reload' && location.hash === '' && document.getElementById('enter').checkVisibility()")
	p.signIn(s.link(t))
	p.shoot("console-en")
	name := "__Host-muster-" + strconv.Itoa(s.port)
	got := p.cookies()
	value := got[name].Value
	if want := (cookie{Name: name, Value: value, Domain: "localhost", Path: "/", SameSite: "Strict", HTTPOnly: true, Secure: true}); got[name] != want || len(got) != 1 {
		t.Errorf("cookies %+v, want %+v alone", got, want)
	}
	var visible string
	must(t, p.eval("document.cookie", &visible))
	if visible != "" {
		t.Errorf("a script reads the cookie %q", visible)
	}
	if text := p.text("who"); text != "Signed in as ada (unix:61001); the API knows you as api:unix:61001" {
		t.Errorf("the page says %q", text)
	}
	if text := p.text("gpus"); !strings.Contains(text, "vision/<b>unix:61001 (42%)") || !strings.Contains(text, "eve python x.py") {
		t.Errorf("GPUs: %q", text)
	}
	if text := p.text("gpus-state"); text != "1 of 3 GPUs are free." {
		t.Errorf("GPUs: %q", text)
	}

	second := b.open("en")
	second.signIn(s.link(t))
	second.visit(origin + "/") // a reload needs no link
	second.wait("document.body.dataset.state === 'watching'")
	p.visit(origin + "/")
	p.wait("document.querySelectorAll('#sessions tr').length === 2")
	p.click("#sessions tr:first-child button") // the newest
	second.wait("document.body.dataset.state === 'out'")
	if text := second.text("message"); !strings.HasPrefix(text, "Your session has ended.") {
		t.Errorf("the revoked page says %q", text)
	}
	if second.text("content") != "" && second.text("gpus") != "" {
		t.Error("the revoked page still shows data")
	}
	p.wait("document.querySelectorAll('#sessions tr').length === 1")
	p.click("#leave")
	p.wait("document.body.dataset.state === 'out'")
	if got := p.cookies(); len(got) != 0 {
		t.Errorf("after the sign-out the browser keeps %v", got)
	}
	if left := s.table.List(ada.User); len(left) != 0 {
		t.Errorf("after the sign-out there are %d sessions", len(left))
	}
	b.check(t, origin)
}

// TestBrowserLinks: a used and an expired link open nothing, and another's revocation ends a stream.
func TestBrowserLinks(t *testing.T) {
	b := startChromium(t)
	s, origin := console(t)
	link := s.link(t)
	p := b.open("en")
	p.signIn(link)
	later := b.open("en")
	for name, address := range map[string]string{"used": link, "expired": s.link(t), "none": origin + gate.Entrance} {
		if name == "expired" {
			s.shift.Store(int64(2 * time.Minute))
		}
		later.visit("about:blank")
		later.visit(address)
		want := "this link was used, or is older than a minute"
		if name == "none" {
			want = "This page needs a link"
		}
		later.wait("document.getElementById('message').innerText.includes('" + want + "')")
		var hidden bool
		must(t, later.eval("!document.getElementById('enter').checkVisibility()", &hidden))
		if !hidden {
			t.Errorf("%s: the page offers to sign in", name)
		}
		s.shift.Store(0)
	}
	if got := later.cookies(); len(got) != 0 {
		t.Errorf("cookies without a session: %v", got)
	}
	must(t, s.table.RevokeUser(t.Context(), ada.User)) // as muster session revoke does
	p.wait("document.body.dataset.state === 'out'")
	b.check(t, origin)
}

// TestBrowserLanguages: Chinese and English by the order of the browser, and names for a screen reader.
func TestBrowserLanguages(t *testing.T) {
	b := startChromium(t)
	s, origin := console(t)
	for languages, want := range map[string][3]string{
		"zh-CN,zh,en": {"zh", "退出登录", "您将以"}, "zh-TW": {"zh", "退出登录", "您将以"}, "en-US,en,zh": {"en", "Sign out", "You are about"},
		"de-DE,de": {"en", "Sign out", "You are about"}, "de,zh": {"zh", "退出登录", "您将以"},
	} {
		p := b.open(languages)
		p.visit(s.link(t))
		p.wait("document.getElementById('enter').checkVisibility()")
		if text := p.text("message"); !strings.HasPrefix(text, want[2]) {
			t.Errorf("%s: the page of the link says %q", languages, text)
		}
		p.signIn(s.link(t))
		var got [2]string
		must(t, p.eval("[document.documentElement.lang, document.getElementById('leave').innerText]", &got))
		if got[0] != want[0] || got[1] != want[1] {
			t.Errorf("%s: the page is %v, want %v", languages, got, want)
		}
		p.shoot("console-" + want[0] + "-" + languages[:2])
		var tree struct {
			Nodes []struct {
				Ignored    bool
				Role, Name struct{ Value any }
			}
		}
		must(t, p.send("Accessibility.getFullAXTree", map[string]any{}, &tree))
		roles := map[string]int{}
		for _, n := range tree.Nodes {
			role := fmt.Sprint(n.Role.Value)
			roles[role]++
			if name := fmt.Sprint(n.Name.Value); (role == "button" || role == "columnheader") && !n.Ignored && strings.TrimSpace(name) == "" {
				t.Errorf("%s: a %s has no name", languages, role)
			}
		}
		for role, least := range map[string]int{"main": 1, "banner": 1, "heading": 3, "table": 2, "button": 2, "status": 2} {
			if roles[role] < least {
				t.Errorf("%s: %d of the role %s, want %d: %v", languages, roles[role], role, least, roles)
			}
		}
	}
	b.check(t, origin)
}

// TestBrowserOtherPort: a page of another server on localhost gets the cookie, since cookies ignore
// ports, but neither reads nor changes anything.
func TestBrowserOtherPort(t *testing.T) {
	b := startChromium(t)
	s, origin := console(t)
	p := b.open("en")
	p.signIn(s.link(t))
	mine := s.table.List(ada.User)[0].ID

	var stolen atomic.Pointer[http.Request]
	evil := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		stolen.CompareAndSwap(nil, r)
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<!doctype html><title>evil</title><body>evil")
	})}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	go func() { _ = evil.Serve(l) }()
	t.Cleanup(func() { _ = evil.Close() })
	q := b.openIn(p.profile, "en") // the same browser
	q.visit(localOrigin(PortOf(l)) + "/")
	q.wait("document.title === 'evil'")
	asked := s.api.asked.Load()

	tries := map[string]string{}
	for name, options := range map[string]string{
		"read":    `{credentials: "include"}`,
		"no-cors": `{credentials: "include", mode: "no-cors"}`,
		"delete":  `{credentials: "include", method: "DELETE"}`,
		"key":     `{credentials: "include", headers: {"X-Muster-Key": "x"}}`,
		"post":    `{credentials: "include", method: "POST", body: "{}", mode: "no-cors"}`,
	} {
		for _, path := range []string{"/api/me", "/api/gpus", "/api/watch", "/api/sessions/" + mine, "/.muster/leave"} {
			tries[name+" "+path] = `fetch("` + origin + path + `", ` + options + `).then((a) => a.text()).then((t) => "read " + t, () => "refused")`
		}
	}
	tries["frame"] = `new Promise((done) => { const f = document.createElement("iframe"); f.src = "` + origin + `/"; f.onload = () => {
		let text = "refused"; try { text = "read " + f.contentDocument.body.innerText; } catch (e) {} done(text); }; document.body.append(f); })`
	tries["window"] = `new Promise((done) => { const w = open("` + origin + `/"); setTimeout(() => { let text = "refused"; try { text = "read " + w.document.body.innerText; } catch (e) {} done(text); }, 500); })`
	tries["storage"] = `localStorage.getItem("muster-key") === null ? "refused" : "read"`
	for name, script := range maps.All(tries) {
		var got string
		must(t, q.eval(script, &got))
		if text := strings.TrimSpace(strings.TrimPrefix(got, "read")); got != "refused" && text != "" {
			t.Errorf("%s: %s", name, got)
		}
	}
	var form bool
	must(t, q.eval(`(() => { const f = document.createElement("form"); f.method = "post"; f.enctype = "text/plain"; f.target = "x"; f.action = "`+origin+`/.muster/leave"; document.body.append(f); f.submit(); return true; })()`, &form))

	// The other server sends what it got.
	r := stolen.Load()
	if len(r.Cookies()) == 0 {
		t.Log("this browser keeps cookies of other ports to itself")
	}
	theft, err := http.NewRequestWithContext(t.Context(), "GET", origin+"/api/gpus", http.NoBody)
	must(t, err)
	theft.Header.Set("Cookie", r.Header.Get("Cookie"))
	theft.Header.Set("Origin", origin)
	answer, err := http.DefaultClient.Do(theft)
	must(t, err)
	must(t, answer.Body.Close())
	if answer.StatusCode != http.StatusForbidden && answer.StatusCode != http.StatusUnauthorized {
		t.Errorf("the stolen cookie alone: %d", answer.StatusCode)
	}
	if list := s.table.List(ada.User); len(list) != 1 || list[0].ID != mine {
		t.Errorf("sessions afterwards: %v", list)
	}
	p.wait("document.body.dataset.state === 'watching'") // goes on
	if after := s.api.asked.Load(); after < asked {
		t.Error("the watch has stopped")
	}
}
