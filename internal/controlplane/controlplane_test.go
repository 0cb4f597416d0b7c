package controlplane

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/muster-dev/muster/charts"
	"github.com/muster-dev/muster/internal/controlplane/contract"
)

func TestOptions(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name    string
		options Options
		want    string
	}{
		{"no folder", Options{}, "no data folder"},
		{"port too large", Options{DataDir: "x", Port: 65536}, "from 1 to 65535"},
		{"port negative", Options{DataDir: "x", Port: -1}, "from 1 to 65535"},
		{"range is no range", Options{DataDir: "x", ServiceCIDR: "10.96"}, "not usable"},
		{"range too small", Options{DataDir: "x", ServiceCIDR: "10.96.0.0/28"}, "between /12 and /24"},
		{"range has host bits", Options{DataDir: "x", ServiceCIDR: "10.96.0.1/16"}, "not usable"},
		{"range is IPv6", Options{DataDir: "x", ServiceCIDR: "fd00::/112"}, "IPv4"},
		{"good", Options{DataDir: "x", ServiceCIDR: "10.0.0.0/16"}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			o, err := test.options.complete()
			if test.want == "" {
				if err != nil || !filepath.IsAbs(o.DataDir) || !slices.Equal(o.Executable, []string{self, contract.Verb}) {
					t.Errorf("complete() = %+v, %v", o, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("complete() = %v, want %q", err, test.want)
			}
		})
	}
}

func TestLock(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	release, err := Lock(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Lock(t.Context(), dir)
	want := &LockedError{DataDir: dir, PID: os.Getpid()}
	var got *LockedError
	if !errors.As(err, &got) || *got != *want {
		t.Errorf("second Lock() = %v, want %v", err, want)
	}
	if !strings.Contains(want.Error(), strconv.Itoa(os.Getpid())) {
		t.Errorf("%v does not name the holder", want)
	}
	release()
	release, err = Lock(t.Context(), dir)
	if err != nil {
		t.Fatal("after release: ", err)
	}
	release()
}

// A holder that was killed is waited for; one that lives is not.
func TestEnding(t *testing.T) {
	zombie := exec.Command("/bin/true")
	if err := zombie.Start(); err != nil {
		t.Fatal(err)
	}
	// Its end is seen, and it is not reaped.
	if err := unix.Waitid(unix.P_PID, zombie.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	if !ending(zombie.Process.Pid) {
		t.Error("a zombie is taken for a living process")
	}
	if err := zombie.Wait(); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name string
		pid  int
		want bool
	}{{"gone", zombie.Process.Pid, true}, {"not known yet", 0, true}, {"alive", os.Getpid(), false}} {
		if got := ending(test.pid); got != test.want {
			t.Errorf("%s: ending(%d) = %v, want %v", test.name, test.pid, got, test.want)
		}
	}
}

func TestParseRoutes(t *testing.T) {
	table := `Iface	Destination	Gateway 	Flags	RefCnt	Use	Metric	Mask		MTU	Window	IRTT
eth0	00000000	010200C0	0003	0	0	0	00000000	0	0	0
eth0	000200C0	00000000	0001	0	0	0	00FFFFFF	0	0	0
tun0	0000600A	00000000	0001	0	0	0	0000FFFF	0	0	0
`
	got, err := parseRoutes(strings.NewReader(table))
	if err != nil {
		t.Fatal(err)
	}
	want := []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("10.96.0.0/16")}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
		t.Error(diff)
	}
	if _, err := parseRoutes(strings.NewReader("eth0 zz 0 0 0 0 0 0")); err == nil {
		t.Error("a table that cannot be read is accepted")
	}
}

func TestChooseRange(t *testing.T) {
	vpn := []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12")}
	for _, test := range []struct {
		name             string
		last, asked      string
		used             []netip.Prefix
		claimed          []string
		want, note, fail string
	}{
		{name: "usual", want: "10.96.0.0/16"},
		{name: "a VPN has it", used: vpn, want: "10.112.0.0/16", note: "instead"},
		{name: "another starts at the same time", claimed: serviceRanges[:2], want: "10.208.0.0/16", note: "another Muster uses it"},
		{name: "all are claimed", claimed: serviceRanges, used: vpn, want: "10.112.0.0/16", note: "instead"},
		{name: "kept although claimed", last: "10.112.0.0/16", claimed: serviceRanges, want: "10.112.0.0/16"},
		{name: "kept", last: "10.112.0.0/16", want: "10.112.0.0/16"},
		{name: "kept although in the way", last: "10.96.0.0/16", used: vpn, want: "10.96.0.0/16", note: "overlaps"},
		{name: "its own route is not in the way", last: "10.96.0.0/16", used: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16")}, want: "10.96.0.0/16"},
		{name: "asked", asked: "10.1.0.0/16", want: "10.1.0.0/16"},
		{name: "asked for another", last: "10.96.0.0/16", asked: "10.1.0.0/16", fail: "keep that range"},
		{name: "nothing is free", used: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/1"), netip.MustParsePrefix("128.0.0.0/1")}, fail: "choose a free private range"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, note, err := settings{ServiceCIDR: test.last}.chooseRange(test.asked, test.used, func(r string) bool { return !slices.Contains(test.claimed, r) })
			if test.fail != "" {
				if err == nil || !strings.Contains(err.Error(), test.fail) {
					t.Errorf("err = %v, want %q", err, test.fail)
				}
				return
			}
			if err != nil || got != test.want || !strings.Contains(note, test.note) || (test.note == "") != (note == "") {
				t.Errorf("chooseRange() = %q, %q, %v, want %q, %q", got, note, err, test.want, test.note)
			}
		})
	}
}

func TestListen(t *testing.T) {
	other, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	port := other.Addr().(*net.TCPAddr).Port

	if _, _, err := listen(t.Context(), port, 0); err == nil || !strings.Contains(err.Error(), "process "+strconv.Itoa(os.Getpid())) {
		t.Errorf("listen() = %v, which does not name the process that has the port", err)
	}
	l, note, err := listen(t.Context(), 0, port)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	if !strings.Contains(note, strconv.Itoa(port)) {
		t.Errorf("note = %q", note)
	}
}

func TestSettings(t *testing.T) {
	dir := t.TempDir()
	want := settings{Port: 7000, ServiceCIDR: "10.112.0.0/16"}
	if err := want.save(dir); err != nil {
		t.Fatal(err)
	}
	got, err := loadSettings(dir)
	if err != nil || got != want {
		t.Errorf("loadSettings() = %v, %v, want %v", got, err, want)
	}
	if err := os.WriteFile(settingsFile(dir), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := loadSettings(dir); err == nil || !strings.Contains(err.Error(), "remove it") {
		t.Errorf("torn settings: %v", err)
	}
}

func TestRestarts(t *testing.T) {
	var deaths restarts
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	for want := 1; want <= maxRestarts; want++ {
		pause, nth, ok := deaths.next(now)
		if !ok || nth != want || pause != firstPause<<(want-1) {
			t.Errorf("death %d: %s, %d, %v", want, pause, nth, ok)
		}
	}
	if _, _, ok := deaths.next(now.Add(time.Second)); ok {
		t.Error("it is started again without end")
	}
	if pause, nth, ok := deaths.next(now.Add(restartWindow)); !ok || nth != 2 || pause != 2*firstPause {
		t.Errorf("after the window: %s, %d, %v", pause, nth, ok)
	}
}

// A child that ends before it is ready ends the start, with its last words.
func TestChildThatFailsAtOnce(t *testing.T) {
	for _, test := range []struct{ name, script, want string }{
		{"while etcd starts", "echo 'panic: no such page' >&2; exit 2", "cannot be used: panic: no such page"},
		{"later", `echo '{"stage":"kube-apiserver"}' >&4; echo 'it hurts' >&2; exit 2`, "it hurts"},
		{"with a reason", `echo '{"stage":"kube-apiserver","error":"no luck today"}' >&4; exit 1`, "no luck today"},
		{"for want of room", `echo '{"stage":"etcd","error":"write x: no space left on device"}' >&4; exit 1`, "make room"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := Start(t.Context(), Options{DataDir: t.TempDir(), Executable: []string{"/bin/sh", "-c", test.script}})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Start() = %v, want %q", err, test.want)
			}
		})
	}
}

func TestStartGivesUpWithItsContext(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := Start(ctx, Options{DataDir: t.TempDir(), Executable: []string{"/bin/sh", "-c", "exec sleep 60"}})
	if err == nil || ctx.Err() == nil {
		t.Errorf("Start() = %v", err)
	}
}

func TestNoExecutable(t *testing.T) {
	_, err := Start(t.Context(), Options{DataDir: t.TempDir(), Executable: []string{"/nonexistent"}})
	if err == nil || !strings.Contains(err.Error(), "/nonexistent") {
		t.Errorf("Start() = %v", err)
	}
}

func TestDamagedFile(t *testing.T) {
	const log = "0000000000000001-00000000000003e8.wal"
	dir := t.TempDir()
	for _, name := range []string{"wal/" + log, "snap/db"} {
		path := filepath.Join(dir, "member", name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	database := filepath.Join(dir, "member", "snap", "db")
	for _, test := range []struct{ name, fault, tail, want string }{
		{"the log", "damaged at byte 4096 of " + log + ": crc mismatch", "", filepath.Join(dir, "member", "wal", log)},
		{"a log that is not there", "cannot read 0000000000000009-0000000000000009.wal", "", ""},
		{"the database by name", "failed to open database; path: " + database, "", database},
		{"the database by who gave up", "panic: assertion failed: page 7", "goroutine 1 [running]:\ngo.etcd.io/bbolt.(*DB).page(...)", database},
		{"nobody knows", "panic: no such thing", "goroutine 1 [running]:\nmain.main()", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := damagedFile(dir, test.fault, []byte(test.tail)); got != test.want {
				t.Errorf("damagedFile() = %q, want %q", got, test.want)
			}
		})
	}
}

func TestHeldBack(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 10, 0, time.UTC)
	for _, test := range []struct {
		name, since, status string
		want                bool
	}{
		{"just established", "2030-01-01T00:00:09Z", "True", true},
		{"long established", "2030-01-01T00:00:08Z", "True", false},
		{"not established", "2030-01-01T00:00:09Z", "False", false},
		{"no time", "", "True", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			crd := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"conditions": []any{
				map[string]any{"type": "NamesAccepted", "status": "True", "lastTransitionTime": "2030-01-01T00:00:09Z"},
				map[string]any{"type": "Established", "status": test.status, "lastTransitionTime": test.since},
			}}}}
			if got := heldBack(crd, now); got != test.want {
				t.Errorf("heldBack() = %v, want %v", got, test.want)
			}
		})
	}
}

func TestManifests(t *testing.T) {
	first, err := readManifests(charts.CRD, builtin)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, manifest := range first {
		names[manifest.object.GetKind()+"/"+manifest.object.GetName()] = true
		if got := manifest.object.GetAnnotations()[annotationManifest]; got != manifest.hash || got == "" {
			t.Errorf("%s carries hash %q, want %q", manifest.object.GetName(), got, manifest.hash)
		}
	}
	for _, want := range []string{"StorageClass/muster-local", "Namespace/muster-system", "CustomResourceDefinition/gangs.muster.dev"} {
		if !names[want] {
			t.Errorf("%s is missing among %v", want, names)
		}
	}
	second, err := readManifests(charts.CRD, builtin)
	if err != nil || second[0].hash != first[0].hash {
		t.Errorf("the same manifest has two hashes, or %v", err)
	}
	foreign := fstest.MapFS{"x.yaml": {Data: []byte("apiVersion: v1\nkind: Pod\nmetadata: {name: x}\n")}}
	if _, err := readManifests(foreign); err == nil || !strings.Contains(err.Error(), "not expected") {
		t.Errorf("a manifest of an unknown kind: %v", err)
	}
}
