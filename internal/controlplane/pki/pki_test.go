package pki

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

var (
	now       = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	serviceIP = net.IPv4(10, 96, 0, 1)
)

func ensure(t *testing.T, dir string, ip net.IP, at time.Time) *Set {
	t.Helper()
	set, err := Ensure(dir, ip, at, false)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func TestEnsureIsUsable(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pki")
	set := ensure(t, dir, serviceIP, now)
	pool, err := set.CAPool()
	if err != nil {
		t.Fatal(err)
	}
	for name, usage := range map[string]x509.ExtKeyUsage{
		APIServer: x509.ExtKeyUsageServerAuth, Node: x509.ExtKeyUsageServerAuth,
		Admin: x509.ExtKeyUsageClientAuth, Controllers: x509.ExtKeyUsageClientAuth, KubeletClient: x509.ExtKeyUsageClientAuth,
	} {
		pair, err := tls.LoadX509KeyPair(set.CertFile(name), set.KeyFile(name))
		if err != nil {
			t.Fatal(err)
		}
		_, err = pair.Leaf.Verify(x509.VerifyOptions{Roots: pool, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{usage}})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if usage == x509.ExtKeyUsageServerAuth && pair.Leaf.VerifyHostname("127.0.0.1") != nil {
			t.Errorf("%s is not valid for 127.0.0.1", name)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if info, err := entry.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v, %v", entry.Name(), info.Mode(), err)
		}
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder has mode %v, %v", info.Mode(), err)
	}
}

func TestEnsureRenews(t *testing.T) {
	all := 13 // Six certificates, their keys and the service account key.
	for _, test := range []struct {
		name  string
		spoil func(t *testing.T, dir string)
		ip    net.IP
		later time.Duration
		want  []string
		many  int
	}{
		{name: "nothing when all is well"},
		{name: "nothing after some months", later: 200 * 24 * time.Hour},
		{name: "identities before they expire", later: identityLife - renewBefore + time.Hour, many: all - 3},
		{name: "everything before the authority expires", later: authorityLife - identityLife + time.Hour, many: all - 1},
		{name: "another service range", ip: net.IPv4(10, 112, 0, 1), want: []string{"apiserver.key", "apiserver.crt"}},
		{name: "a lost key", spoil: remove("admin.key"), want: []string{"admin.key", "admin.crt"}},
		{name: "a torn certificate", spoil: tear("node.crt"), want: []string{"node.key", "node.crt"}},
		{name: "a lost authority", spoil: remove("ca.key"), many: all - 1},
		{name: "a torn service account key", spoil: tear("service-account.key"), want: []string{"service-account.key"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			ensure(t, dir, serviceIP, now)
			key, err := os.ReadFile(ServiceAccountKeyFile(dir))
			if err != nil {
				t.Fatal(err)
			}
			if test.spoil != nil {
				test.spoil(t, dir)
			}
			ip := serviceIP
			if test.ip != nil {
				ip = test.ip
			}
			got := ensure(t, dir, ip, now.Add(test.later)).Renewed
			if test.many == 0 && !slices.Equal(got, test.want) || test.many != 0 && len(got) != test.many {
				t.Errorf("renewed %v, want %v (%d)", got, test.want, test.many)
			}
			if again := ensure(t, dir, ip, now.Add(test.later)).Renewed; len(again) != 0 {
				t.Errorf("renewed once more: %v", again)
			}
			after, err := os.ReadFile(ServiceAccountKeyFile(dir))
			if err != nil {
				t.Fatal(err)
			}
			if same := bytes.Equal(key, after); same == slices.Contains(got, "service-account.key") {
				t.Errorf("the service account key is the same: %v", same)
			}
		})
	}
}

func remove(name string) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
}

func tear(name string) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		if err := os.Truncate(filepath.Join(dir, name), 20); err != nil {
			t.Fatal(err)
		}
	}
}

func TestEnsureWithoutAFolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Ensure(file, serviceIP, now, false); err == nil {
		t.Error("a file is taken for a folder")
	}
}
