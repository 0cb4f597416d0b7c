package account

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"
)

// TestGIDs: all groups of a user count, also those without a name. They are kept for a while, and never
// become fewer since a service is away.
func TestGIDs(t *testing.T) {
	entries := ada()
	list := "ada"
	want := []uint32{6001}
	for gid := 7001; gid <= 7070; gid++ {
		list += fmt.Sprint(" ", gid)
		want = append(want, uint32(gid))
	}
	entries["initgroups.ada"] = list + "\n"
	s := serve(t, entries)
	d := s.open(Options{})
	check := func(when string) {
		t.Helper()
		if got, err := d.GIDs(t.Context(), 5001); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: groups %v, %v; want %v", when, got, err, want)
		}
	}
	check("at first")
	if got, err := d.GIDs(t.Context(), 1); err != nil || len(got) != 0 {
		t.Errorf("groups of a user who does not exist: %v, %v", got, err)
	}
	// The service of ada is away: getent ends with 2 for passwd, and tells fewer groups.
	s.pass(9 * time.Minute)
	s.remove("passwd.5001")
	s.write("initgroups.ada", "ada\n")
	check("kept")
	s.pass(2 * time.Minute)
	if _, known, err := d.ByUID(t.Context(), 5001); known || err != nil {
		t.Errorf("the account is known (%t) or an error: %v", known, err)
	}
	if got, err := d.GIDs(t.Context(), 5001); err != nil || len(got) != 0 {
		t.Errorf("groups of a user whom the directory does not know: %v, %v", got, err)
	}
	// The account is an answer of before.
	s.write("passwd.5001", entries["passwd.5001"])
	s.pass(time.Minute)
	if _, known, err := d.ByUID(t.Context(), 5001); !known || err != nil {
		t.Fatal("the account is not known: ", err)
	}
	s.remove("passwd.5001")
	if got, err := d.GIDs(t.Context(), 5001); !errors.Is(err, ErrAway) {
		t.Errorf("groups while the service is away: %v, %v; want an error", got, err)
	}
	s.write("passwd.5001", entries["passwd.5001"])
	s.write("initgroups.ada", list+"\n")
	s.pass(time.Minute)
	check("back")
}

// TestGIDsOfFiles: without getent, the file group tells.
func TestGIDsOfFiles(t *testing.T) {
	s := serve(t, nil)
	s.file("passwd", "ada:x:5001:6001::/home/ada:/bin/sh\n")
	s.file("group", "one:x:6001:\ntwo:x:6002:eve,ada\nthree:x:6003:eve\n")
	d := s.open(Options{FilesOnly: true})
	if got, err := d.GIDs(t.Context(), 5001); err != nil || !slices.Equal(got, []uint32{6001, 6002}) {
		t.Errorf("groups %v, %v", got, err)
	}
}
