package supervise

import (
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/internal/node/shim/contract"
)

func table(text string) [][]string {
	var rows [][]string
	for line := range strings.Lines(text) {
		rows = append(rows, strings.Split(strings.TrimSpace(line), ":"))
	}
	return rows
}

func TestFindAccount(t *testing.T) {
	users := table("root:x:0:0:root:/root:/bin/sh\njupyter:x:1000:100::/home/jupyter:/bin/sh\nbad:x:many:0::/:\n7:x:0:0::/seven:\n")
	groups := table("root:x:0:\nusers:x:100:\nvideo:x:44:jupyter,other\nrender:x:105:other\n5:x:0:\nsudo:x:27:7\n")
	for _, c := range []struct {
		named string
		want  account
		fault string
	}{
		{named: "0", want: account{home: "/root"}},
		{named: "jupyter", want: account{uid: 1000, gid: 100, groups: []uint32{44}, home: "/home/jupyter"}},
		{named: "1000", want: account{uid: 1000, gid: 100, groups: []uint32{44}, home: "/home/jupyter"}},
		{named: "jupyter:video", want: account{uid: 1000, gid: 44, groups: []uint32{44}, home: "/home/jupyter"}},
		{named: "jupyter:5", want: account{uid: 1000, gid: 5, groups: []uint32{44}, home: "/home/jupyter"}},
		{named: "1234", want: account{uid: 1234, home: "/muster/home/a"}},
		{named: "1234:1234", want: account{uid: 1234, gid: 1234, home: "/muster/home/a"}},
		// A number stays that number, also where it is the name of root.
		{named: "7", want: account{uid: 7, home: "/muster/home/a"}},
		{named: "7:5", want: account{uid: 7, gid: 5, home: "/muster/home/a"}},
		{named: "01000", want: account{uid: 1000, gid: 100, groups: []uint32{44}, home: "/home/jupyter"}},
		{named: "+0", fault: `no user "+0"`},
		{named: "nobody-here", fault: `no user "nobody-here"`},
		{named: "jupyter:none", fault: `no group "none"`},
		{named: "-1", fault: `no user "-1"`},
		{named: "bad", fault: `number "many"`},
	} {
		t.Run(c.named, func(t *testing.T) {
			got, err := findAccount(c.named, "/muster/home/a", users, groups)
			if c.fault != "" {
				if err == nil || err.reason != contract.ReasonUser || !strings.Contains(err.message, c.fault) {
					t.Fatalf("got %+v, want a fault with %q", err, c.fault)
				}
				return
			}
			if err != nil {
				t.Fatal(err.message)
			}
			if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(account{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestWorkingDirectoryOfAnotherTree: the folders of a working directory are made, and none through a
// link that leads out of the tree, as those in /proc/self/fd do.
func TestWorkingDirectoryOfAnotherTree(t *testing.T) {
	tree, outside := t.TempDir(), t.TempDir()
	open, err := os.Open(outside)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = open.Close() }()
	if err := os.Symlink(fmt.Sprintf("/proc/self/fd/%d", open.Fd()), filepath.Join(tree, "link")); err != nil {
		t.Fatal(err)
	}
	makeFolders(filepath.Join(tree, "a/b"))
	if info, err := os.Stat(filepath.Join(tree, "a/b")); err != nil || !info.IsDir() {
		t.Errorf("the folder was not made: %v", err)
	}
	makeFolders(filepath.Join(tree, "link/x"))
	if made, err := os.ReadDir(outside); err != nil || len(made) > 0 {
		t.Errorf("%v was made outside: %v", made, err)
	}
}

// TestStrangeTables: a pipe, device or large file in place of an image's users neither blocks the
// shim nor fills its memory.
func TestStrangeTables(t *testing.T) {
	for name, make := range map[string]func(path string) error{
		"a pipe":   func(path string) error { return unix.Mkfifo(path, 0o644) },
		"a folder": func(path string) error { return os.Mkdir(path, 0o755) },
		"a device": func(path string) error { return os.Symlink("/dev/zero", path) },
		"a terabyte": func(path string) error {
			if err := os.WriteFile(path, nil, 0o644); err != nil {
				return err
			}
			return os.Truncate(path, 1<<40)
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "passwd")
			if err := make(path); err != nil {
				t.Fatal(err)
			}
			if rows, err := readTable(path); err == nil || !strings.Contains(err.Error(), "has to be a file of at most") {
				t.Errorf("read: %q, %v", rows, err)
			}
		})
	}
}

// FuzzFindAccount: in any tables of an image findAccount finds an account with valid numbers, or
// returns a fault with a message.
func FuzzFindAccount(f *testing.F) {
	f.Add("jupyter:video", "jupyter:x:1000:100::/home/jupyter:/bin/sh\n", "video:x:44:jupyter,other\n")
	f.Add("0", ":::\n0:0:4294967295:-1:\n", "::\n")
	f.Add("4294967295:2147483648", "a:b\n", "")
	f.Fuzz(func(t *testing.T, named, users, groups string) {
		dir := t.TempDir()
		var tables [2][][]string
		for i, text := range []string{users, groups} {
			path := filepath.Join(dir, "table")
			if err := os.WriteFile(path, []byte(text), fs.ModePerm); err != nil {
				t.Fatal(err)
			}
			rows, err := readTable(path)
			if err != nil {
				return
			}
			tables[i] = rows
		}
		a, fault := findAccount(named, "/", tables[0], tables[1])
		if fault != nil {
			if fault.reason != contract.ReasonUser || fault.message == "" {
				t.Fatalf("%q: %+v", named, fault)
			}
			return
		}
		for _, number := range append(a.groups, a.uid, a.gid) {
			if number > math.MaxInt32 {
				t.Fatalf("%q is %+v", named, a)
			}
		}
		if a.home == "" {
			t.Fatalf("%q has no home", named)
		}
	})
}
