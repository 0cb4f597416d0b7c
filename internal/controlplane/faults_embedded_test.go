//go:build embedded

package controlplane_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/internal/controlplane"
	"github.com/muster-dev/muster/internal/osfile/disktest"
)

// refused starts what must not start, and returns why.
func refused(t *testing.T, o controlplane.Options, words ...string) {
	t.Helper()
	c, err := attempt(t, o)
	if err == nil {
		stop(t, c)
		t.Fatal("it started")
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("the error does not say %q:\n%v", word, err)
		}
	}
}

func taken(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().(*net.TCPAddr).Port
}

func TestPortTaken(t *testing.T) {
	t.Parallel()
	port := taken(t)
	refused(t, controlplane.Options{DataDir: t.TempDir(), Port: port},
		fmt.Sprintf("port %d on 127.0.0.1 is taken by process %d", port, os.Getpid()), "choose another port")

	// A port that was only remembered gives way, and the user is told.
	dir := t.TempDir()
	settings := fmt.Sprintf(`{"port":%d}`, port)
	if err := os.WriteFile(filepath.Join(dir, "control-plane.json"), []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	said := &notes{}
	c := start(t, controlplane.Options{DataDir: dir, Log: said})
	if strings.HasSuffix(c.RESTConfig().Host, fmt.Sprint(":", port)) {
		t.Error("it listens on a port that is taken")
	}
	if !strings.Contains(said.String(), fmt.Sprintf("port %d is taken by", port)) {
		t.Errorf("the user was told %q", said)
	}
}

// fingerprint is the content of every file below dir.
func fingerprint(t *testing.T, dir string) map[string][32]byte {
	t.Helper()
	sums := map[string][32]byte{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		sums[path] = sha256.Sum256(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return sums
}

func TestCorruptData(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c, err := attempt(t, controlplane.Options{DataDir: dir, Bare: true})
	if err != nil {
		t.Fatal(err)
	}
	stop(t, c)
	member := filepath.Join(dir, "etcd", "member")
	logs, err := filepath.Glob(filepath.Join(member, "wal", "*.wal"))
	if err != nil || len(logs) == 0 {
		t.Fatal("no write-ahead log: ", err)
	}
	database := filepath.Join(member, "snap", "db")
	garble := func(from, size int) func([]byte) []byte {
		return func(data []byte) []byte {
			for i := from; i < min(len(data), from+size); i++ {
				data[i] ^= 0x5a
			}
			return data
		}
	}
	for _, test := range []struct {
		name, path string
		damage     func([]byte) []byte
	}{
		{"the log's beginning", logs[0], garble(0, 64<<10)},
		{"a byte in the log", logs[0], garble(20_000, 1)},
		{"an empty log", logs[0], func([]byte) []byte { return nil }},
		{"the database's beginning", database, garble(0, 64<<10)},
		{"the database's pages", database, garble(8<<10, 1<<20)},
		{"an empty database", database, func([]byte) []byte { return []byte("x") }},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := test.path
			good, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			bad := test.damage(slices.Clone(good))
			if err := os.WriteFile(path, bad, 0o600); err != nil {
				t.Fatal(err)
			}
			before := fingerprint(t, filepath.Join(dir, "etcd"))
			refused(t, controlplane.Options{DataDir: dir, Bare: true},
				"etcd's file "+path+" cannot be used", "restore the whole folder", "mv "+filepath.Join(dir, "etcd"), "control-plane.log")
			after := fingerprint(t, filepath.Join(dir, "etcd"))
			for file, sum := range before {
				if after[file] != sum && after[file+".broken"] != sum {
					t.Errorf("%s was changed and not kept", file)
				}
			}
			if err := os.WriteFile(path, good, 0o600); err != nil {
				t.Fatal(err)
			}
		})
	}
	start(t, controlplane.Options{DataDir: dir, Bare: true}) // Restored, it is as before.
}

func TestFullDiskAtStart(t *testing.T) {
	t.Parallel()
	refused(t, controlplane.Options{DataDir: disktest.New(t, "size=64m")}, "is full", "make room")
}

func TestReadOnlyDisk(t *testing.T) {
	t.Parallel()
	dir := disktest.New(t, "size=512m")
	data := filepath.Join(dir, "muster")
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	refused(t, controlplane.Options{DataDir: data}, "read-only", "give a data folder")
}

func TestDiskThatFillsUp(t *testing.T) {
	t.Parallel()
	dir := disktest.New(t, "size=512m")
	c := start(t, controlplane.Options{DataDir: dir, Bare: true})
	api := client(t, c)
	var stat syscall.Statfs_t
	if err := syscall.Statfs(dir, &stat); err != nil {
		t.Fatal(err)
	}
	filler := filepath.Join(dir, "filler")
	if err := os.WriteFile(filler, make([]byte, int64(stat.Bavail)*stat.Bsize-2<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	written := 0
	for ; written < 400; written++ {
		ctx, cancel := context.WithTimeout(within(t), patience/4)
		_, err := api.CoreV1().ConfigMaps("default").Create(ctx, configMap(fmt.Sprint("c", written), 900<<10), metav1.CreateOptions{})
		cancel()
		if err != nil {
			break
		}
	}
	t.Logf("%d objects were taken", written)
	select {
	case <-c.Done():
		if err := c.Err(); err == nil || !strings.Contains(err.Error(), "is full") {
			t.Errorf("Err() = %v, which does not say that the disk is full", err)
		}
	case <-within(t).Done():
		t.Fatal("it goes on without a disk")
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	c = start(t, controlplane.Options{DataDir: dir, Bare: true})
	for i := range written {
		mustHave(t, client(t, c), fmt.Sprint("c", i))
	}
}

// TestFullDiskTakesRemovalsOnly: on a disk without a free byte, the reserve lets it start. It
// refuses new objects with a message, removes old ones, and once there is room all works.
func TestFullDiskTakesRemovalsOnly(t *testing.T) {
	t.Parallel()
	dir := disktest.New(t, "size=512m")
	c := start(t, controlplane.Options{DataDir: dir})
	mustCreate(t, client(t, c), configMap("old", 100<<10))
	stop(t, c)
	filler, err := disktest.Fill(dir)
	if err != nil {
		t.Fatal(err)
	}
	c = start(t, controlplane.Options{DataDir: dir})
	maps := client(t, c).CoreV1().ConfigMaps("default")
	_, err = maps.Create(within(t), configMap("new", 1), metav1.CreateOptions{})
	if err == nil || !strings.Contains(err.Error(), "only removal works") {
		t.Errorf("a new object: %v", err)
	}
	for i := range 200 { // The log goes on in segments for which there is room.
		changed := configMap("old", 100<<10+i)
		if _, err := maps.Update(within(t), changed, metav1.UpdateOptions{}); err != nil {
			t.Fatalf("change %d: %v", i, err)
		}
	}
	if err := maps.Delete(within(t), "old", metav1.DeleteOptions{}); err != nil {
		t.Errorf("a removal: %v", err)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	mustCreate(t, client(t, c), configMap("new", 1))
}
