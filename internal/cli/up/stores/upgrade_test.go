package stores

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/muster-dev/muster/internal/cli/data/opening"
	"github.com/muster-dev/muster/internal/environment/source"
	"github.com/muster-dev/muster/internal/node/shim/contract"
	"github.com/muster-dev/muster/internal/node/shim/lineage"
)

// old is the data folder of a Muster of one user, with some of everything.
type old struct {
	home, commit, key string
	code              []*source.Parcel
}

func newOld(t *testing.T) *old {
	t.Helper()
	o := &old{home: t.TempDir(), key: strings.Repeat("cd", 32)}
	code := openSource(t, filepath.Join(o.home, ownCode))
	for _, text := range []string{"a", "b", "c"} {
		o.code = append(o.code, snapshot(t, code, text))
	}
	must(t, code.Checkout(t.Context(), o.code[0].Digest(), filepath.Join(t.TempDir(), "out")))
	store, err := opening.OpenFolder(t.Context(), o.home)
	must(t, err)
	o.commit = put(t, store, "data")
	must(t, store.Close())
	for name, text := range map[string]string{
		filepath.Join(opening.Folder, "uploads", "one", "part-1"): "part",
		filepath.Join(ownEnvironments, o.key, ".ready"):           "{}",
		filepath.Join(ownFetched, "x"):                            "copy",
		filepath.Join("volumes", "claim", "checkpoint"):           "checkpoint",
	} {
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(o.home, name)), 0o755))
		must(t, os.WriteFile(filepath.Join(o.home, name), []byte(text), 0o600))
	}
	return o
}

// copy is another data folder with the same.
func (o *old) copy(t *testing.T) *old {
	t.Helper()
	c := *o
	c.home = filepath.Join(t.TempDir(), "home")
	must(t, os.CopyFS(c.home, os.DirFS(o.home)))
	return &c
}

// check finds everything in the namespace of the owner, and nothing in another one.
func (o *old) check(t *testing.T) {
	t.Helper()
	stores, err := Open(Options{Home: o.home})
	must(t, err)
	r := &rig{T: t, home: o.home, stores: stores}
	for i, p := range o.code {
		if !r.code("u-1000", p) || r.code("u-1001", p) {
			t.Errorf("code snapshot %d is not that of the owner alone", i)
		}
	}
	if !reads(t, r.store("u-1000"), o.commit) || reads(t, r.store("u-1001"), o.commit) {
		t.Error("data is not that of the owner alone")
	}
	if stores.Grants().check("u-1000", o.key) != nil || stores.Grants().check("u-1001", o.key) == nil {
		t.Error("an environment is not granted to the owner alone")
	}
	for name, want := range map[string]string{
		filepath.Join(Folder, opening.Folder, "u-1000", "uploads", "one", "part-1"): "part",
		filepath.Join("volumes", "claim", "checkpoint"):                             "checkpoint",
	} {
		if text, err := os.ReadFile(filepath.Join(o.home, name)); err != nil || string(text) != want {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
	// A collection would find nothing that reaches the data before its datasets are moved.
	if pending, err := Pending(o.home); err != nil || pending != "u-1000" {
		t.Errorf("pending: %q, %v", pending, err)
	}
	if names, err := stores.Collected().Namespaces(t.Context()); err != nil || len(names) > 0 {
		t.Errorf("collected: %v, %v", names, err)
	}
}

func TestUpgrade(t *testing.T) {
	o := newOld(t)
	if _, err := Open(Options{Home: o.home}); !errors.Is(err, ErrOneUser) {
		t.Errorf("opened before it was upgraded: %v", err)
	}
	must(t, CheckSingle(o.home))
	must(t, Upgrade(o.home, "u-1000"))
	o.check(t)
	if err := CheckSingle(o.home); !errors.Is(err, ErrShared) {
		t.Errorf("a Muster of one user takes it: %v", err)
	}
	before := files(t, o.home)
	must(t, Upgrade(o.home, "u-1000"))
	if after := files(t, o.home); len(after) != len(before) {
		t.Error("a second upgrade changed something")
	}
	if err := Upgrade(o.home, "u-1001"); err == nil || !strings.Contains(err.Error(), "for namespace u-1000 has begun") {
		t.Errorf("another owner: %v", err)
	}
}

// TestUpgradeOfNothing: a data folder without stores becomes a shared one.
func TestUpgradeOfNothing(t *testing.T) {
	home := t.TempDir()
	must(t, Upgrade(home, "u-1000"))
	_, err := Open(Options{Home: home})
	must(t, err)
}

var errPower = errors.New("the power is off")

// failing is a disk that fails at one of its changes: before it, or after it.
type failing struct {
	osDisk
	left  *int
	after bool
}

func (d failing) do(change func() error) error {
	*d.left--
	switch {
	case *d.left > 0:
		return change()
	case *d.left == 0 && d.after:
		return errors.Join(change(), errPower)
	}
	return errPower
}

func (d failing) record(home string, r record) error {
	return d.do(func() error { return d.osDisk.record(home, r) })
}

func (d failing) makeFolder(path string) error {
	return d.do(func() error { return d.osDisk.makeFolder(path) })
}

func (d failing) rename(from, to string) error {
	return d.do(func() error { return d.osDisk.rename(from, to) })
}

func (d failing) removeAll(path string) error {
	return d.do(func() error { return d.osDisk.removeAll(path) })
}

func (d failing) give(g *Grants, namespace, key string) error {
	return d.do(func() error { return d.osDisk.give(g, namespace, key) })
}

// TestInterruptedUpgrades ends an upgrade before and after each change of the disk, and repeats
// it. Nothing is lost, and no Muster takes the half of it.
func TestInterruptedUpgrades(t *testing.T) {
	whole := newOld(t)
	for _, after := range []bool{false, true} {
		for n := 1; ; n++ {
			o, left := whole.copy(t), n
			err := upgrade{home: o.home, namespace: "u-1000", disk: failing{left: &left, after: after}}.run()
			if err == nil {
				if n < 12 {
					t.Errorf("the upgrade ended after %d changes", n)
				}
				break
			}
			if !errors.Is(err, errPower) {
				t.Fatalf("interrupted at %d: %v", n, err)
			}
			if _, err := Open(Options{Home: o.home}); !errors.Is(err, ErrOneUser) && (err != nil || !strings.Contains(files(t, o.home)[filepath.Join(Folder, recordFile)], string(objects))) {
				t.Fatalf("interrupted at %d: the half of it was opened: %v", n, err)
			}
			if r, _ := readRecord(o.home); r.Namespace != "" {
				if err := Upgrade(o.home, "u-1001"); err == nil {
					t.Fatalf("interrupted at %d: another owner got it", n)
				}
			}
			must(t, Upgrade(o.home, "u-1000"))
			o.check(t)
			if t.Failed() {
				t.Fatalf("interrupted at %d, after: %v", n, after)
			}
		}
	}
}

// TestRefusedUpgrades: each is refused with one sentence, and nothing is changed.
func TestRefusedUpgrades(t *testing.T) {
	o := newOld(t)
	before := files(t, o.home)
	for name, want := range map[string]string{"": "name the user who owns", "default": "name the user who owns", "u-../x": "name the user who owns"} {
		if err := Upgrade(o.home, name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", name, err)
		}
	}
	// A container whose shim lives, and one whose number another process has now.
	sleep := exec.CommandContext(t.Context(), "sleep", "600")
	must(t, sleep.Start())
	t.Cleanup(func() { _ = sleep.Process.Kill(); _ = sleep.Wait() })
	stat, err := lineage.Read(sleep.Process.Pid)
	must(t, err)
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	must(t, err)
	at := filepath.Join(o.home, ownPods, "uid", "containers", "main", "0", contract.IdentityFile)
	write := func(id contract.Identity) {
		text, err := json.Marshal(id)
		must(t, errors.Join(err, os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, text, 0o600)))
	}
	write(contract.Identity{Boot: strings.TrimSpace(string(boot)), PID: sleep.Process.Pid, StartTicks: stat.StartTicks})
	if err := Upgrade(o.home, "u-1000"); err == nil || !strings.Contains(err.Error(), "1 containers of jobs still run") {
		t.Errorf("while a job runs: %v", err)
	}
	must(t, os.Remove(at))
	if after := files(t, o.home); len(after) != len(before) {
		t.Error("a refused upgrade changed something")
	}
	write(contract.Identity{Boot: strings.TrimSpace(string(boot)), PID: sleep.Process.Pid, StartTicks: stat.StartTicks + 1})
	must(t, Upgrade(o.home, "u-1000"))
	o.check(t)
}
