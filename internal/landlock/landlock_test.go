//go:build linux

package landlock_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/internal/landlock"
)

// probing is the variable that makes the program of these tests try its access under Landlock.
// Its value is a folder.
const probing = "MUSTER_TEST_LANDLOCK"

func TestMain(m *testing.M) {
	if dir := os.Getenv(probing); dir != "" {
		os.Exit(probe(dir))
	}
	os.Exit(m.Run())
}

// probe restricts itself and says, line by line, which attempts are denied.
func probe(dir string) int {
	var rules []landlock.Rule
	for name, access := range map[string]landlock.Access{"read": landlock.Read, "change": landlock.Read | landlock.Change, "one/file": landlock.Read | landlock.Change} {
		below, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			fmt.Println(err)
			return 1
		}
		rules = append(rules, landlock.Rule{Below: below, Access: access})
	}
	if err := landlock.Restrict(rules...); err != nil {
		fmt.Println(err)
		return 1
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	read := func(name string) error { _, err := os.ReadFile(at(name)); return err }
	write := func(name string) error { return os.WriteFile(at(name), []byte("x"), 0o600) }
	_, dialed := net.Dial("tcp", os.Getenv(probing+"_ADDRESS"))
	for _, try := range []struct {
		what string
		err  error
	}{
		{"read below read", read("read/file")},
		{"write below read", write("read/file")},
		{"make below read", write("read/new")},
		{"read below change", read("change/file")},
		{"write below change", write("change/file")},
		{"make below change", write("change/new")},
		{"move below change", os.Rename(at("change/new"), at("change/folder/new"))},
		{"link below change", os.Symlink("x", at("change/link"))},
		{"pipe below change", unix.Mkfifo(at("change/pipe"), 0o600)},
		{"remove below change", os.Remove(at("change/folder/new"))},
		{"write one", write("one/file")},
		{"read beside one", read("one/other")},
		{"read elsewhere", read("elsewhere/file")},
		{"write elsewhere", write("elsewhere/file")},
		{"list elsewhere", func() error { _, err := os.ReadDir(at("elsewhere")); return err }()},
		{"read by a link", read("change/out")},
		{"move out", os.Rename(at("change/file"), at("elsewhere/new"))},
		{"run", exec.Command(at("elsewhere/program")).Run()},
		{"connect", dialed},
	} {
		if errors.Is(try.err, fs.ErrPermission) || errors.Is(try.err, unix.EXDEV) {
			fmt.Println("denied:", try.what)
		} else if try.err != nil {
			fmt.Println("failed:", try.what, try.err)
		}
	}
	return 0
}

// TestRestrict restricts a process, as root where the tests are root, and compares its
// attempts with the rules.
func TestRestrict(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"read", "change", "change/folder", "one", "elsewhere"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "elsewhere/program"), []byte("#!/bin/true"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"read/file", "change/file", "one/file", "one/other", "elsewhere/file"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../elsewhere/file", filepath.Join(dir, "change/out")); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), probing+"="+dir, probing+"_ADDRESS="+listener.Addr().String())
	said, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	want := []string{
		"write below read", "make below read", "pipe below change", "read beside one", "read elsewhere", "write elsewhere", "list elsewhere", "read by a link",
		"move out", "run", "connect",
	}
	if got := strings.TrimSpace(string(said)); got != "denied: "+strings.Join(want, "\ndenied: ") {
		t.Errorf("the process said\n%s\nwant denied:\n%s", got, strings.Join(want, "\n"))
	}
}
