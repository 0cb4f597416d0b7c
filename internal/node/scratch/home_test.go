package scratch

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/muster-dev/muster/internal/account"
	"github.com/muster-dev/muster/internal/node/expansion"
)

// away is a directory of users that gives no answer.
type away struct{}

func (away) ByUID(context.Context, uint32) (account.Account, bool, error) {
	return account.Account{}, false, account.ErrAway
}

// TestTellHome: the home is that of the account, a folder of the pod for a user without
// one, and unknown while the directory of users is away.
func TestTellHome(t *testing.T) {
	etc := t.TempDir()
	list := "ada:x:5001:5001::/home/ada:/bin/sh\nbare:x:5002:5002:::\n"
	if err := os.WriteFile(filepath.Join(etc, "passwd"), []byte(list), 0o600); err != nil {
		t.Fatal(err)
	}
	users := account.New(account.Options{FilesOnly: true, Folder: etc})
	t.Cleanup(users.Close)
	for name, c := range map[string]struct {
		accounts   Accounts
		uid        int64
		set        map[string]string
		home, user string
		fails      bool
	}{
		"an account":              {accounts: users, uid: 5001, home: "/home/ada", user: "ada"},
		"an account without home": {accounts: users, uid: 5002, home: "/muster/home/main", user: "bare"},
		"no account":              {accounts: users, uid: 5003, home: "/muster/home/main"},
		"a number of no user":     {accounts: users, uid: 1 << 32, home: "/muster/home/main"},
		"HOME is set":             {accounts: users, uid: 5001, set: map[string]string{"HOME": "/x"}, home: "/x", user: "ada"},
		"away":                    {accounts: away{}, uid: 5001, fails: true},
		"away and all is set":     {accounts: away{}, uid: 5001, set: map[string]string{"HOME": "/x", "USER": "y"}, home: "/x", user: "y"},
	} {
		t.Run(name, func(t *testing.T) {
			v := &expansion.Variables{}
			for name, value := range c.set {
				v.Set(name, value)
			}
			gid := int64(os.Getegid())
			if os.Geteuid() == 0 {
				gid = 5001
			}
			err := New(Options{Accounts: c.accounts}).TellHome(t.Context(), v, HomeRequest{Root: t.TempDir(), Seen: "/muster", Container: "main", UID: &c.uid, GID: &gid})
			if c.fails != (err != nil) || (c.fails && !errors.Is(err, account.ErrAway)) {
				t.Fatal(err)
			}
			home, _ := v.Get("HOME")
			user, _ := v.Get("USER")
			if home != c.home || user != c.user {
				t.Errorf("HOME is %q and USER %q, want %q and %q", home, user, c.home, c.user)
			}
		})
	}
}
