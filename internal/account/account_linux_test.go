package account

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// script is a getent that reads an entry for each key from a file, and notes its calls.
const script = `#!/bin/sh
echo "$@" >> %[1]s/calls
: > %[1]s/running.$$
set -- "$@"
if [ "$(ls %[1]s | grep -c '^running')" -gt 2 ]; then : > %[1]s/many; fi
if [ -e %[1]s/hang ]; then exec sleep 60; fi
if [ -e %[1]s/slow ]; then sleep 0.05; fi
database=$1; shift; code=0
for key; do
  if [ -e "%[1]s/$database.$key" ]; then cat "%[1]s/$database.$key"; else code=2; fi
done
rm %[1]s/running.$$
if [ -e %[1]s/fail ]; then cat %[1]s/fail >&2; exit 1; fi
exit $code
`

// service is a name service for a test.
type service struct {
	*testing.T
	folder string
	// etc has the files passwd and group.
	etc string

	mu  sync.Mutex
	now time.Time
}

func serve(t *testing.T, entries map[string]string) *service {
	t.Helper()
	s := &service{T: t, folder: t.TempDir(), etc: t.TempDir(), now: time.Now()}
	for name, entry := range entries {
		s.write(name, entry)
	}
	path := filepath.Join(s.folder, "getent")
	if err := os.WriteFile(path, fmt.Appendf(nil, script, s.folder), 0o755); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	return s
}

func (s *service) write(name, content string) {
	s.Helper()
	if err := os.WriteFile(filepath.Join(s.folder, name), []byte(content), 0o600); err != nil {
		s.Fatal(err)
	}
}

func (s *service) remove(name string) {
	s.Helper()
	if err := os.Remove(filepath.Join(s.folder, name)); err != nil {
		s.Fatal(err)
	}
}

func (s *service) file(name, content string) {
	s.Helper()
	if err := os.WriteFile(filepath.Join(s.etc, name), []byte(content), 0o600); err != nil {
		s.Fatal(err)
	}
}

// calls returns the getents until now.
func (s *service) calls() []string {
	s.Helper()
	raw, err := os.ReadFile(filepath.Join(s.folder, "calls"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		s.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(raw)), "\n")
}

func (s *service) pass(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = s.now.Add(d)
}

func (s *service) clock() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

func (s *service) open(o Options) *Directory {
	s.Helper()
	o.Folder, o.Now = s.etc, s.clock
	if o.Getent == "" {
		o.Getent = filepath.Join(s.folder, "getent")
	}
	d := New(o)
	s.Cleanup(d.Close)
	return d
}

// user returns the entries of a user under its uid and its login.
func user(entries map[string]string, login string, uid int, line string) {
	entries["passwd."+login], entries[fmt.Sprint("passwd.", uid)] = line, line
}

func ada() map[string]string {
	entries := map[string]string{}
	user(entries, "ada", 5001, "ada:*:5001:6001:Ada:/home/ada:/bin/bash\n")
	return entries
}

// TestByUID: an entry counts if it is one entry, with the uid that was asked for.
func TestByUID(t *testing.T) {
	for name, c := range map[string]struct {
		number, login string
		want          Account
		unknown       bool
	}{
		"a user":                    {number: "ada:*:5001:6001:Ada:/home/ada:/bin/bash\n", want: Account{5001, 6001, "ada", "/home/ada", "/bin/bash"}},
		"of Active Directory":       {number: "EX\\ada b@ex.com:*:5001:6001::/home/ada:\n", login: "EX\\ada b@ex.com", want: Account{5001, 6001, "EX\\ada b@ex.com", "/home/ada", ""}},
		"without a home":            {number: "ada:*:5001:6001:::\n", want: Account{5001, 6001, "ada", "", ""}},
		"a relative home":           {number: "ada:*:5001:6001::etc:sh\n", want: Account{5001, 6001, "ada", "", ""}},
		"nobody":                    {unknown: true},
		"another uid":               {number: "ada:*:0:0::/:/bin/sh\n", unknown: true},
		"a newline in a field":      {number: "ada:*:5001:6001:Ada\nada:*:5001:0::/:/bin/sh\n", unknown: true},
		"a colon in a field":        {number: "ada:*:5001:6001:Ada:x:/home/ada:/bin/bash\n", unknown: true},
		"a huge line":               {number: "ada:*:5001:6001:" + strings.Repeat("x", 1<<20) + ":/home/ada:/bin/bash\n", unknown: true},
		"no number":                 {number: "ada:*:5001:x::/home/ada:/bin/bash\n", unknown: true},
		"the highest number":        {number: "ada:*:5001:4294967295::/home/ada:/bin/bash\n", unknown: true},
		"an escape in the login":    {number: "a\x1b[2Jda:*:5001:6001::/h:/s\n", want: Account{5001, 6001, "", "/h", "/s"}},
		"text from right to left":   {number: "a\u202eda:*:5001:6001::/h:/s\n", want: Account{5001, 6001, "", "/h", "/s"}},
		"bytes that are no text":    {number: "a\xffda:*:5001:6001::/h:/s\n", want: Account{5001, 6001, "", "/h", "/s"}},
		"a login that is a number":  {number: "0:*:5001:6001::/h:/s\n", want: Account{5001, 6001, "", "/h", "/s"}},
		"a login that is an option": {number: "-s:*:5001:6001::/h:/s\n", want: Account{5001, 6001, "", "/h", "/s"}},
		"the login of root":         {number: "root:*:5001:6001::/h:/s\n", want: Account{5001, 6001, "", "/h", "/s"}},
	} {
		t.Run(name, func(t *testing.T) {
			entries := map[string]string{"passwd.root": "root:x:0:0::/root:/bin/sh\n", "passwd.0": "root:x:0:0::/root:/bin/sh\n"}
			if c.number != "" {
				entries["passwd.5001"] = c.number
				if c.want.Login != "" {
					entries["passwd."+c.want.Login] = c.number
				}
			}
			got, known, err := serve(t, entries).open(Options{}).ByUID(t.Context(), 5001)
			if err != nil || known == c.unknown {
				t.Fatalf("known: %v, error: %v", known, err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestAliasOfRoot: the first login of uid 0 is its name, and an alias gets nothing of
// its own.
func TestAliasOfRoot(t *testing.T) {
	entries := map[string]string{"passwd.toor": "toor:x:0:0::/root:/bin/csh\n"}
	user(entries, "root", 0, "root:x:0:0::/root:/bin/sh\n")
	if got := serve(t, entries).open(Options{}).NameWithin(t.Context(), 0); got != "root" {
		t.Errorf("uid 0 is %q", got)
	}
}

// TestLifetimes: an answer is kept for its time, and callers that come together cause
// one lookup.
func TestLifetimes(t *testing.T) {
	s := serve(t, ada())
	s.write("slow", "")
	d := s.open(Options{Known: time.Minute, Unknown: time.Second})
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if _, known, err := d.ByUID(t.Context(), 5001); !known || err != nil {
				t.Errorf("known: %v, error: %v", known, err)
			}
		})
	}
	all.Wait()
	if diff := cmp.Diff([]string{"passwd 5001", "passwd ada"}, s.calls()); diff != "" {
		t.Fatal(diff)
	}
	ask := func(uid uint32, want int) {
		t.Helper()
		if _, _, err := d.ByUID(t.Context(), uid); err != nil {
			t.Fatal(err)
		}
		if got := len(s.calls()); got != want {
			t.Fatalf("%d calls, want %d: %q", got, want, s.calls())
		}
	}
	s.pass(time.Minute - time.Nanosecond)
	ask(5001, 2)
	s.pass(time.Nanosecond)
	ask(5001, 4)
	ask(7, 5)
	ask(7, 5)
	s.pass(time.Second)
	ask(7, 6)
}

// TestAway: a directory that fails or hangs is told from one that knows no such user. A
// known answer outlasts it for a time; groups do not.
func TestAway(t *testing.T) {
	for _, how := range []string{"hang", "fail"} {
		t.Run(how, func(t *testing.T) {
			entries := ada()
			entries["initgroups.ada"] = "ada                   6002\n"
			entries["group.6001"], entries["group.ada"] = "ada:*:6001:\n", "ada:*:6001:\n"
			entries["group.6002"], entries["group.lab"] = "lab:*:6002:ada\n", "lab:*:6002:ada\n"
			s := serve(t, entries)
			d := s.open(Options{Known: time.Minute, Away: time.Second, Stale: time.Hour})
			before, err := d.Groups(t.Context(), 5001)
			if diff := cmp.Diff([]Group{{6001, "ada"}, {6002, "lab"}}, before); err != nil || diff != "" {
				t.Fatal(err, diff)
			}
			d.options.Limit = 100 * time.Millisecond
			s.write(how, "the server\x1b[2J is away\n")
			s.file("passwd", "local:x:7:8::/home/local:/bin/sh\n")
			s.pass(2 * time.Minute)
			if a, known, err := d.ByUID(t.Context(), 5001); !known || err != nil || a.Login != "ada" {
				t.Errorf("a known user: %v, %v, %v", a, known, err)
			}
			if _, err := d.Groups(t.Context(), 5001); !errors.Is(err, ErrAway) {
				t.Errorf("groups of a known user: %v", err)
			}
			if named, err := d.GroupNames(t.Context(), []uint32{6001, 6002}); err != nil || len(named) != 2 {
				t.Errorf("names of known groups: %v, %v", named, err)
			}
			if a, known, err := d.ByUID(t.Context(), 7); !known || err != nil || a.Login != "local" {
				t.Errorf("a local user: %v, %v, %v", a, known, err)
			}
			_, _, err = d.ByUID(t.Context(), 5002)
			if !errors.Is(err, ErrAway) || strings.Contains(err.Error(), "\x1b") {
				t.Errorf("an unknown user: %q", err)
			}
			calls := len(s.calls())
			if _, _, again := d.ByUID(t.Context(), 5002); !errors.Is(again, ErrAway) || len(s.calls()) != calls {
				t.Errorf("at once again: %v, %d calls after %d", again, len(s.calls()), calls)
			}
			s.pass(2 * time.Hour)
			if _, _, err := d.ByUID(t.Context(), 5001); !errors.Is(err, ErrAway) {
				t.Errorf("a user who was known long ago: %v", err)
			}
			s.remove(how)
			s.pass(time.Second)
			d.options.Limit = time.Minute
			if a, known, err := d.ByUID(t.Context(), 5001); !known || err != nil || a.Login != "ada" {
				t.Errorf("afterwards: %v, %v, %v", a, known, err)
			}
		})
	}
}

// TestGroups: 100 groups; an entry that is made to look like another gives nothing.
func TestGroups(t *testing.T) {
	entries := ada()
	list := "ada                  "
	want := []Group{}
	group := func(gid int, name, line string) {
		entries[fmt.Sprint("group.", gid)] = line
		if _, there := entries["group."+name]; !there {
			entries["group."+name] = line
		}
	}
	group(0, "root", "root:x:0:\n")
	group(10, "wheel", "wheel:x:10:root\n")
	for gid := 6001; gid <= 6100; gid++ {
		name := fmt.Sprintf("domain users %d", gid)
		group(gid, name, fmt.Sprintf("%s:*:%d:%s\n", name, gid, strings.Repeat("somebody,", 1_000)))
		want = append(want, Group{uint32(gid), name})
		list += fmt.Sprint(" ", gid)
	}
	// A group with the name of another; a member whose name is an entry; no entry; a name
	// that a header would change; a number.
	group(6201, "wheel", "wheel:x:6201:ada\n")
	group(6202, "six", "six:x:6202:ada\nwheel:x:6203:\n")
	entries["group.6204"], entries["group. wheel"] = " wheel:x:6204:ada\n", " wheel:x:6204:ada\n"
	group(6205, "10", "10:x:6205:ada\n")
	group(6206, "last", "last:x:6206:ada\n")
	want = append(want, Group{6206, "last"})
	entries["initgroups.ada"] = list + " 6201 6202 6203 6204 6205 6206 6206 x 4294967295\n"
	s := serve(t, entries)
	d := s.open(Options{})
	got, err := d.Groups(t.Context(), 5001)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got, err := d.Groups(t.Context(), 1); err != nil || len(got) != 0 {
		t.Errorf("groups of a user who does not exist: %v, %v", got, err)
	}
}

// TestGroupsInOneCall: a user with 70 groups costs two calls for their names.
func TestGroupsInOneCall(t *testing.T) {
	entries := ada()
	list := "ada"
	for gid := 6001; gid <= 6070; gid++ {
		line := fmt.Sprintf("g%d:*:%d:ada\n", gid, gid)
		entries[fmt.Sprint("group.", gid)], entries[fmt.Sprint("group.g", gid)] = line, line
		list += fmt.Sprint(" ", gid)
	}
	entries["initgroups.ada"] = list + "\n"
	s := serve(t, entries)
	got, err := s.open(Options{}).Groups(t.Context(), 5001)
	if err != nil || len(got) != 70 || len(s.calls()) != 5 {
		t.Errorf("%d groups by %d calls: %v", len(got), len(s.calls()), err)
	}
}

// TestGroupsOfAnotherLogin: a user of LDAP called root has no groups of root.
func TestGroupsOfAnotherLogin(t *testing.T) {
	s := serve(t, map[string]string{
		"passwd.root": "root:x:0:0::/root:/bin/sh\n", "passwd.5001": "root:*:5001:6001::/h:/s\n",
		"initgroups.root": "root 0 10\n", "group.6001": "lab:*:6001:\n", "group.lab": "lab:*:6001:\n",
	})
	got, err := s.open(Options{}).Groups(t.Context(), 5001)
	if diff := cmp.Diff([]Group{{6001, "lab"}}, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

// TestName: Name never waits, and has the login later.
func TestName(t *testing.T) {
	s := serve(t, ada())
	s.write("hang", "")
	d := s.open(Options{Limit: time.Hour})
	if got := d.Name(5001); got != "uid 5001" {
		t.Errorf("before it is known: %q", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := d.NameWithin(ctx, 5001); got != "uid 5001" {
		t.Errorf("without waiting: %q", got)
	}
	d.Close() // ends the getent that hangs
	if got := d.NameWithin(t.Context(), 5002); got != "uid 5002" {
		t.Errorf("after Close: %q", got)
	}
	s.remove("hang")
	d = s.open(Options{})
	if got := d.NameWithin(t.Context(), 5001); got != "ada" || d.Name(5001) != "ada" {
		t.Errorf("%q, then %q", got, d.Name(5001))
	}
}

// TestProcesses: only so many getents run at once.
func TestProcesses(t *testing.T) {
	s := serve(t, nil)
	s.write("slow", "")
	d := s.open(Options{Processes: 2, Limit: time.Minute})
	var all sync.WaitGroup
	for uid := range uint32(12) {
		all.Go(func() {
			if _, known, err := d.ByUID(t.Context(), uid); known || err != nil {
				t.Errorf("uid %d: %v, %v", uid, known, err)
			}
		})
	}
	all.Wait()
	if len(s.calls()) != 12 {
		t.Errorf("calls: %q", s.calls())
	}
	if _, err := os.Stat(filepath.Join(s.folder, "many")); err == nil {
		t.Error("more than 2 getents ran at once")
	}
}

// TestOutputIsBounded: a getent that writes for ever is ended.
func TestOutputIsBounded(t *testing.T) {
	out := &lines{limit: 10}
	long := strings.Repeat("x", 1<<20)
	for range maxOutput >> 20 {
		if _, err := out.Write([]byte(long)); err != nil {
			t.Fatal(err)
		}
	}
	if len(out.current) != 10 {
		t.Errorf("%d bytes are kept", len(out.current))
	}
	if _, err := out.Write([]byte{'x'}); err == nil {
		t.Error("no bound of bytes")
	}
	out = &lines{limit: 10}
	if _, err := out.Write([]byte(strings.Repeat("\n", maxLines+1))); err == nil {
		t.Error("no bound of lines")
	}
	endless := filepath.Join(t.TempDir(), "getent")
	if err := os.WriteFile(endless, []byte("#!/bin/sh\nexec yes\n"), 0o755); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	d := New(Options{Getent: endless, Folder: t.TempDir(), Limit: time.Minute})
	defer d.Close()
	if _, _, err := d.ByUID(t.Context(), 1); !errors.Is(err, ErrAway) || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("an endless answer: %v", err)
	}
}

// TestCacheIsBounded: a cache forgets answers, and not the newest.
func TestCacheIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := New(Options{FilesOnly: true, Folder: t.TempDir()})
		defer d.Close()
		for uid := range uint32(maxKept + 100) {
			d.accounts.learn(number(uid), kept[Account]{known: true})
		}
		if len(d.accounts.answers) != maxKept {
			t.Errorf("%d answers are kept", len(d.accounts.answers))
		}
		if _, fresh := d.accounts.kept(number(maxKept + 99)); !fresh {
			t.Error("the newest is not kept")
		}
	})
}

// TestFiles: without a getent, and with one that knows no such database, the files are
// read as the C library reads them.
func TestFiles(t *testing.T) {
	for name, change := range map[string]func(*service, *Options){
		"no getent":   func(_ *service, o *Options) { o.Getent = "/does/not/exist" },
		"files alone": func(_ *service, o *Options) { o.FilesOnly = true },
		"musl's":      func(s *service, _ *Options) { s.write("fail", "getent: Unknown database\n") },
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, nil)
			s.file("passwd", "root:x:0:0::/root:/bin/sh\ntoor:x:0:0::/:/bin/csh\n# comment\nada:x:5001:6001::/home/ada:/bin/sh\nada:x:5002:0::/:/bin/sh\n"+
				"long:x:5003:1:"+strings.Repeat("x", 1<<20)+"::\nlast:x:5004:1::/:/bin/sh")
			s.file("group", "root:x:0:\nada:x:6001:\nlab:x:6002:bob,ada\nwheel:x:10:adam\nlab:x:6003:ada\n")
			o := Options{}
			change(s, &o)
			d := s.open(o)
			for uid, want := range map[uint32]string{0: "root", 5001: "ada", 5002: "uid 5002", 5003: "uid 5003", 5004: "last", 9: "uid 9"} {
				if got := d.NameWithin(t.Context(), uid); got != want {
					t.Errorf("uid %d is %q, want %q", uid, got, want)
				}
			}
			got, err := d.Groups(t.Context(), 5001)
			if diff := cmp.Diff([]Group{{6001, "ada"}, {6002, "lab"}}, got); err != nil || diff != "" {
				t.Error(err, diff)
			}
		})
	}
}

// TestMachine asks the real getent about the user of this test.
func TestMachine(t *testing.T) {
	d := New(Options{})
	defer d.Close()
	own, known := d.Own(t.Context())
	got, also, err := d.ByUID(t.Context(), uint32(os.Getuid()))
	if diff := cmp.Diff(own, got); known != also || err != nil || diff != "" {
		t.Error(known, also, err, diff)
	}
	root, known, err := d.ByUID(t.Context(), 0)
	if err != nil || !known || root.Login != "root" || root.Home == "" {
		t.Errorf("root is %+v, %v, %v", root, known, err)
	}
	groups, err := d.Groups(t.Context(), 0)
	if err != nil || len(groups) == 0 || groups[0] != (Group{GID: 0, Name: "root"}) {
		t.Errorf("groups of root: %v, %v", groups, err)
	}
	if _, known, err := d.ByUID(t.Context(), 4_100_000_001); known || err != nil {
		t.Errorf("a uid that does not exist: %v, %v", known, err)
	}
}
