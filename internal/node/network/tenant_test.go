package network

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// askEnv makes this program connect to an address, and print the answer.
const askEnv = "MUSTER_NETWORK_TEST_ASK"

// asks reports whether a process of a user of the machine reaches an address.
func asks(t *testing.T, uid uint32, address string) bool {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Env = append(os.Environ(), askEnv+"="+address)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.HasSuffix(strings.TrimSpace(string(out)), "<nil>")
}

// reaches reports whether a pod reaches an address. A refusal comes at once.
func reaches(t *testing.T, from Pod, address string) bool {
	t.Helper()
	_, err := askFor(from.NetNS, address, 5*time.Second)
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("asking %s from pod %s: no refusal within 5 s", address, from.UID)
	}
	return err == nil
}

func at(p Pod) string { return fmt.Sprint(p.IP, ":8080") }

// neighbours are two pods of one user, one of another, and one of no user.
type neighbours struct{ a, a2, b, none Pod }

func (of neighbours) check(t *testing.T, when string) {
	t.Helper()
	for _, to := range []struct {
		name string
		pod  Pod
		user uint32
	}{{"a", of.a, 1001}, {"a2", of.a2, 1001}, {"b", of.b, 1002}, {"none", of.none, 0}} {
		for _, uid := range []uint32{0, 1001, 1002, 1003} {
			if got, want := asks(t, uid, at(to.pod)), uid == 0 || uid == to.user; got != want {
				t.Errorf("%s: user %d reaches pod %s: %t, want %t", when, uid, to.name, got, want)
			}
		}
		for name, from := range map[string]Pod{"a": of.a, "b": of.b, "none": of.none} {
			want := from.Tenant == to.pod.Tenant
			if got := reaches(t, from, at(to.pod)); got != want {
				t.Errorf("%s: pod %s reaches pod %s: %t, want %t", when, name, to.name, got, want)
			}
		}
	}
}

// TestTenants: users of the machine, and pods, reach their own pods only, by services and node ports,
// too. That holds while no process has the network open, and for the next one.
func TestTenants(t *testing.T) {
	options := testOptions(t)
	options.Tenants = true
	first, err := Open(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	make := func(uid string, of Tenant) Pod {
		pod, err := first.AddPod(uid, of)
		if err != nil {
			t.Fatal(err)
		}
		serve(t, pod.NetNS, "0.0.0.0:8080", uid)
		return pod
	}
	mine, other := Tenant{"u-1001", 1001}, Tenant{"u-1002", 1002}
	of := neighbours{make("a", mine), make("a2", mine), make("b", other), make("none", Tenant{})}
	service := netip.AddrFrom4([4]byte{10, 200, 0, 20})
	if err := first.SetServices([]Service{{ClusterIP: service, Ports: []ServicePort{{Port: 80, NodePort: 30080, Backends: []netip.AddrPort{netip.AddrPortFrom(of.b.IP, 8080)}}}}}); err != nil {
		t.Fatal(err)
	}
	of.check(t, "at first")
	checkServices := func(when string) {
		for _, address := range []string{service.String() + ":80", "127.0.0.1:30080", first.Gateway().String() + ":30080"} {
			for uid, want := range map[uint32]bool{0: true, 1001: false, 1002: true} {
				if got := asks(t, uid, address); got != want {
					t.Errorf("%s: user %d reaches %s: %t, want %t", when, uid, address, got, want)
				}
			}
			if address[:4] == "127." {
				continue // of a pod it is its own
			}
			if reaches(t, of.a, address) || !reaches(t, of.b, address) {
				t.Errorf("%s: pods reach %s of another, or not their own", when, address)
			}
		}
	}
	checkServices("at first")
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	of.check(t, "closed")
	second := open(t, options)
	if diff := cmp.Diff([]Tenant{mine, mine, other, {}}, tenantsOf(second.Pods())); diff != "" {
		t.Errorf("adopted:\n%s", diff)
	}
	of.check(t, "adopted")
	checkServices("adopted")
	// The address of a pod that is gone is nobody's.
	if err := second.RemovePod("b"); err != nil {
		t.Fatal(err)
	}
	if asks(t, 1002, at(of.b)) {
		t.Error("a pod that is gone answers")
	}
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	// A Muster of one user reaches all pods again.
	options.Tenants = false
	open(t, options)
	if !asks(t, 1003, at(of.a)) || !reaches(t, of.a, at(of.none)) {
		t.Error("rules for several users hold for a Muster of one")
	}
}

func tenantsOf(pods []Pod) []Tenant {
	var all []Tenant
	for _, p := range pods {
		all = append(all, p.Tenant)
	}
	return all
}

func TestPodAlias(t *testing.T) {
	addr := netip.MustParseAddr("10.1.0.2")
	for _, p := range []Pod{{UID: "a", IP: addr}, {UID: "a", IP: addr, Tenant: Tenant{"u-7", 7}}, {UID: "a", IP: addr, Tenant: Tenant{"default", 0}}, {UID: "a", IP: addr, Tenant: Tenant{"", 4294967294}}} {
		if got, ok := parsePodAlias(podAlias(p)); !ok || got != p {
			t.Errorf("%q became %+v, %t", podAlias(p), got, ok)
		}
	}
	for _, alias := range []string{"", "muster-pod x a", "muster-pod 10.1.0.2 ", "muster-pod 10.1.0.2 a x y", "muster-pod 10.1.0.2 a 7", "muster-pod 10.1.0.2 a 4294967296 u"} {
		if p, ok := parsePodAlias(alias); ok {
			t.Errorf("%q became %+v", alias, p)
		}
	}
	if (Tenant{Namespace: "a b"}).check() == nil {
		t.Error("a namespace with a blank was accepted")
	}
}
