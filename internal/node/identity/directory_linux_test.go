package identity

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/muster-dev/muster/internal/account"
	"github.com/muster-dev/muster/internal/node/expansion"
	"github.com/muster-dev/muster/internal/node/process"
)

// getent answers from files, and fails while there is one called away, as while LDAP is.
const getent = `#!/bin/sh
if [ -e %[1]s/away ]; then exit 1; fi
database=$1; shift; code=0
for key; do
  if [ -e "%[1]s/$database.$key" ]; then cat "%[1]s/$database.$key"; else code=2; fi
done
exit $code
`

// directoryOf is a directory of users whose getent is a program of the test, with ann, who has groups, and
// bob, who has no home.
func directoryOf(t *testing.T) (u *Users, names *account.Directory, folder string, pass func(time.Duration)) {
	t.Helper()
	folder = t.TempDir()
	ann, bob := "ann:*:61001:61101::/home/ann:/bin/sh\n", "bob:*:61002:61102:::\n"
	for name, text := range map[string]string{
		"passwd.61001": ann, "passwd.ann": ann, "initgroups.ann": "ann 61101 61201\n",
		"passwd.61002": bob, "passwd.bob": bob, "initgroups.bob": "bob 61102\n",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	program := filepath.Join(folder, "getent")
	if err := os.WriteFile(program, fmt.Appendf(nil, getent, folder), 0o700); err != nil {
		t.Fatal(err)
	}
	var passed atomic.Int64
	began := time.Now()
	names = account.New(account.Options{Getent: program, Folder: folder, Now: func() time.Time { return began.Add(time.Duration(passed.Load())) }})
	t.Cleanup(names.Close)
	return New(Options{Accounts: names, Shared: true}), names, folder, func(d time.Duration) { passed.Add(int64(d)) }
}

// TestRemovedUser: a user who is removed from the machine gets no new containers once the answer of the
// directory counts, and is shown by number. The containers that run have their numbers already.
func TestRemovedUser(t *testing.T) {
	u, names, folder, pass := directoryOf(t)
	runs, err := u.Owner(t.Context(), "u-61001")
	if err != nil || !slices.Equal(runs.Groups(), []uint32{61101, 61201}) {
		t.Fatalf("%v, %v", runs.Groups(), err)
	}
	for _, name := range []string{"passwd.61001", "passwd.ann", "initgroups.ann"} {
		if err := os.Remove(filepath.Join(folder, name)); err != nil {
			t.Fatal(err)
		}
	}
	pass(11 * time.Minute)
	if _, err := u.Owner(t.Context(), "u-61001"); err == nil || !strings.Contains(err.Error(), "does not know uid 61001") {
		t.Errorf("%v", err)
	}
	if got := names.NameWithin(t.Context(), 61001); got != "uid 61001" {
		t.Errorf("shown as %q", got)
	}
	if err := runs.Set(&process.Spec{}); err != nil {
		t.Errorf("what runs: %v", err)
	}
}

// TestDirectoryAway: while LDAP is away, a user has the groups of the last answer for 10 minutes; then new
// containers wait, and the login is still shown. Later they start again.
func TestDirectoryAway(t *testing.T) {
	u, names, folder, pass := directoryOf(t)
	if _, err := u.Owner(t.Context(), "u-61001"); err != nil {
		t.Fatal(err)
	}
	away := filepath.Join(folder, "away")
	if err := os.WriteFile(away, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	pass(9 * time.Minute)
	if user, err := u.Owner(t.Context(), "u-61001"); err != nil || len(user.Groups()) != 2 {
		t.Errorf("within 10 minutes: %v, %v", user.Groups(), err)
	}
	pass(2 * time.Minute)
	if _, err := u.Owner(t.Context(), "u-61001"); !errors.Is(err, account.ErrAway) {
		t.Errorf("after 11 minutes: %v", err)
	}
	if got := names.NameWithin(t.Context(), 61001); got != "ann" {
		t.Errorf("after 11 minutes shown as %q", got)
	}
	pass(25 * time.Hour)
	if got := names.NameWithin(t.Context(), 61001); got != "uid 61001" {
		t.Errorf("after a day shown as %q", got)
	}
	if err := os.Remove(away); err != nil {
		t.Fatal(err)
	}
	pass(time.Minute)
	if user, err := u.Owner(t.Context(), "u-61001"); err != nil || len(user.Groups()) != 2 {
		t.Errorf("once it is back: %v, %v", user.Groups(), err)
	}
}

// TestNoHome: a user without a home has a folder of the pod.
func TestNoHome(t *testing.T) {
	u, _, _, _ := directoryOf(t)
	for namespace, want := range map[string]string{"u-61001": "/home/ann", "u-61002": "/spare"} {
		user, err := u.Owner(t.Context(), namespace)
		if err != nil {
			t.Fatal(err)
		}
		v := &expansion.Variables{}
		user.HomeIn(v, "/spare")
		if got, _ := v.Get("HOME"); got != want {
			t.Errorf("%s: HOME is %q, want %q", namespace, got, want)
		}
	}
}
