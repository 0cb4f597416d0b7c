package subordinate

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func open(t *testing.T, o Options) *Table {
	t.Helper()
	table, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// TestUsers: no two users have a number in common, nor with /etc/subuid, and a user keeps theirs.
func TestUsers(t *testing.T) {
	taken := filepath.Join(t.TempDir(), "subuid")
	if err := os.WriteFile(taken, []byte("ada:2147500000:65536\nbad\nbob:x:1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	o := Options{Path: filepath.Join(t.TempDir(), "subordinate.json"), Taken: []string{taken, taken + ".absent"}}
	table := open(t, o)
	const people = 50
	bases := make([]uint32, people)
	var all sync.WaitGroup
	for i := range people {
		all.Go(func() {
			users, err := table.Users(uint32(1000+i), 100)
			if err != nil {
				t.Error(err)
				return
			}
			bases[i] = users.Base
		})
	}
	all.Wait()
	owners := map[uint32]int{}
	for i, base := range bases {
		if other, ok := owners[base]; ok || base%size != 0 || base < first+2*size {
			t.Errorf("user %d has %d, user %d has, and 2147500000 to 2147565535 are taken", i, base, other)
		}
		owners[base] = i
	}
	again := open(t, o)
	for i, base := range bases {
		if users, err := again.Users(uint32(1000+i), 100); err != nil || users.Base != base {
			t.Errorf("user %d: %+v, %v; had %d", i, users, err, base)
		}
	}
	// A user whose own number lies in the next range gets another.
	high := uint32(first + (2+people)*size + 7)
	if users, err := again.Users(high, high); err != nil || users.Base <= high {
		t.Errorf("user %d: %+v, %v", high, users, err)
	}
	if _, err := again.Users(0, 0); err == nil || !strings.Contains(err.Error(), "root and -1 are not allowed") {
		t.Errorf("root: %v", err)
	}
}

func TestRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "subordinate.json")
	for _, text := range []string{"{", `{"1000":2147483648,"1001":2147483648}`, `{"1000":100000}`, `{"1000":2147483649}`, `{"-1":2147483648}`} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(Options{Path: path}); err == nil || !strings.Contains(err.Error(), "with no image running, remove it") {
			t.Errorf("%s: %v", text, err)
		}
	}
	table := open(t, Options{Path: filepath.Join(t.TempDir(), "x"), Layers: "/sys/kernel"})
	if _, err := table.Users(1000, 1000); err == nil || !strings.HasPrefix(err.Error(), "images do not run on this machine of several users: ") {
		t.Errorf("layers that cannot be id-mapped: %v", err)
	}
	taken := filepath.Join(t.TempDir(), "subuid")
	if err := os.WriteFile(taken, []byte("ada:2147483648:2147483647\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	table = open(t, Options{Path: filepath.Join(t.TempDir(), "x"), Taken: []string{taken}})
	if _, err := table.Users(1000, 1000); err == nil || !strings.Contains(err.Error(), "no subordinate numbers are left for user 1000") {
		t.Errorf("all taken: %v", err)
	}
}
