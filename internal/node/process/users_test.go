package process

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/internal/node/shim/contract"
	"github.com/muster-dev/muster/internal/node/shim/enclosure"
)

// own is the user of the machine who runs images here, other another one.
const (
	own   = 20001
	other = 20002
	group = 20003
	base  = 1 << 31
)

// boxed is an image with busybox, and volumes of a user of the machine.
type boxed struct {
	t *testing.T
	// layers is the folder of the container's writable layer.
	layers         string
	volume, shared string
	runtime        *Runtime
	iso            Isolation
}

func newBoxed(t *testing.T) *boxed {
	t.Helper()
	needRoot(t)
	box, err := exec.LookPath("busybox")
	if err != nil {
		t.Skip("busybox is not installed")
	}
	program, err := os.ReadFile(box)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := enclosure.MappedMounts(dir); err != nil {
		t.Skip(err)
	}
	b := &boxed{t: t, layers: filepath.Join(dir, "snapshot"), volume: filepath.Join(dir, "volume"), shared: filepath.Join(dir, "shared"), runtime: newRuntime(t)}
	lower := filepath.Join(dir, "lower")
	for path, mode := range map[string]os.FileMode{
		"lower/bin": 0o755, "lower/etc": 0o755, "lower/tmp": 0o777 | os.ModeSticky, "lower/home/app": 0o700,
		"snapshot/fs": 0o755, "snapshot/work": 0o711, "volume": 0o700, "shared": 0o777 | os.ModeSticky,
	} {
		path = filepath.Join(dir, path)
		b.must(os.MkdirAll(path, 0o755), os.Chmod(path, mode))
	}
	b.file(lower, "bin/busybox", string(program), 0o755, 0)
	id := b.install(lower) // busybox gives up the rights of set-user-ID
	b.file(lower, "bin/id", id, 0o755|os.ModeSetuid, 0)
	b.file(lower, "etc/passwd", "root:x:0:0::/root:/bin/sh\napp:x:1000:1000::/home/app:/bin/sh\n", 0o644, 0)
	b.file(lower, "home/app/file", "app's", 0o600, 1000)
	b.must(os.Chown(filepath.Join(lower, "home/app"), 1000, 1000), os.Symlink("busybox", filepath.Join(lower, "bin/sh")),
		unix.Mknod(filepath.Join(lower, "null"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))))
	b.file(b.volume, "mine", "mine", 0o600, own)
	b.file(b.volume, "other", "secret", 0o600, other)
	b.file(b.volume, "root", "secret", 0o600, 0)
	b.file(b.volume, "open", "open", 0o644, 0)
	b.file(b.volume, "id", id, 0o755|os.ModeSetuid, 0)
	b.must(os.Chown(b.volume, own, group), unix.Mknod(filepath.Join(b.volume, "null"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))))
	b.iso = Isolation{
		Users: &contract.Users{UID: own, GID: group, Base: base},
		Root: []contract.RootMount{{Type: "overlay", Source: "overlay", Options: []string{
			"index=off", "lowerdir=" + lower, "upperdir=" + b.layers + "/fs", "workdir=" + b.layers + "/work"}}},
		Mounts: []Mount{{Source: b.volume, Target: "/v"}, {Source: b.shared, Target: "/shared"}, {Source: b.shared, Target: "/a/b/c", ReadOnly: true}},
	}
	return b
}

func (b *boxed) must(errs ...error) {
	b.t.Helper()
	if err := errors.Join(errs...); err != nil {
		b.t.Fatal(err)
	}
}

func (b *boxed) file(dir, name, text string, mode os.FileMode, uid int) {
	b.t.Helper()
	path := filepath.Join(dir, name)
	gid := uid
	if uid == own {
		gid = group
	}
	b.must(os.WriteFile(path, []byte(text), 0o600), os.Chown(path, uid, gid), os.Chmod(path, mode))
}

// install copies the libraries of the program id to the image, and returns the program.
func (b *boxed) install(lower string) string {
	b.t.Helper()
	path, err := exec.LookPath("id")
	if err != nil {
		b.t.Fatal(err)
	}
	out, err := exec.CommandContext(b.t.Context(), "ldd", path).Output()
	if err != nil {
		b.t.Fatal(err)
	}
	for _, word := range strings.Fields(string(out)) {
		if !filepath.IsAbs(word) {
			continue
		}
		text, err := os.ReadFile(word)
		b.must(err, os.MkdirAll(filepath.Join(lower, filepath.Dir(word)), 0o755))
		b.file(lower, word, string(text), 0o755, 0)
	}
	program, err := os.ReadFile(path)
	b.must(err)
	return string(program)
}

// owner returns the owner of a file on the disk.
func (b *boxed) owner(path string) string {
	b.t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		return err.Error()
	}
	stat, _ := info.Sys().(*syscall.Stat_t)
	return fmt.Sprintf("%d:%d", stat.Uid, stat.Gid)
}

func (b *boxed) run(account, script string) string {
	b.t.Helper()
	return inside(b.t, b.runtime, b.iso, "PATH=/bin; for p in cat touch mkdir chown mount mknod kill ls stat; do eval \"$p() { busybox $p \\\"\\$@\\\"; }\"; done\n"+script,
		func(s *Spec) { s.Account, s.Dir = account, "/new/folder" })
}

// TestUsers: root of an image reads no file of another user or of the machine's root through a
// volume, and what it and other users of the image write there is the user's.
func TestUsers(t *testing.T) {
	for account, id := range map[string]string{"root": "0", "app": "1000", "": "0", fmt.Sprintf("%d:%d", own, group): fmt.Sprint(own)} {
		t.Run("as "+account, func(t *testing.T) {
			b := newBoxed(t)
			got := b.run(account, `busybox id -u; ls -d .
for f in mine other root open; do cat /v/$f 2>/dev/null || echo no; echo; done
touch /v/made /shared/made && echo made; touch /a/b/c/made 2>/dev/null || echo read-only
echo x 2>/dev/null >>/v/open || echo no; stat -c %u /v/made`)
			want := id + "\n.\nmine\nno\n\nno\n\nopen\nmade\nread-only\nno\n" + id + "\n"
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			for _, path := range []string{filepath.Join(b.volume, "made"), filepath.Join(b.shared, "made")} {
				if got := b.owner(path); got != fmt.Sprintf("%d:%d", own, group) {
					t.Errorf("%s is of %s", path, got)
				}
			}
			if text, err := os.ReadFile(filepath.Join(b.volume, "open")); err != nil || string(text) != "open" {
				t.Errorf("root's file has %q, %v", text, err)
			}
		})
	}
}

// TestUsersGainNothing: root of an image has no rights outside: not by programs with set-user-ID, device
// files, mounts, signals and settings of the kernel. In the image it is root.
func TestUsersGainNothing(t *testing.T) {
	b := newBoxed(t)
	b.iso.Users.UID = 70001 // above the numbers of an image
	b.must(os.Chown(b.volume, 70001, group), os.Chown(filepath.Join(b.volume, "mine"), 70001, group))
	got := b.run("root", `cat /proc/self/uid_map | busybox tr -s ' ' | busybox sed 's/^ //'
cat /home/app/file; echo; touch /made /home/app/made; chown 1000:1000 /made && echo chowned
no() { "$@" >/dev/null 2>&1 && echo "$1 $2 worked"; }
no mount -t tmpfs x /tmp; no chown 0 /v/other; no chown 1000 /v/mine; no kill -9 1; no mknod /v/zero c 1 5
for f in /null /v/null /proc/sys/kernel/hostname /proc/sysrq-trigger; do (echo x >$f) 2>/dev/null && echo "$f opened"; done
touch /v/gift; no chown 1000 /v/gift; busybox su app -c 'busybox touch /shared/of-app' 2>/dev/null && echo "made by another user"; /v/id -u`)
	want := fmt.Sprintf("0 %d 65536\n70001 70001 1\napp's\nchowned\n0\n", uint32(base))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := b.owner(filepath.Join(b.layers, "fs/made")); got != "1000:1000" {
		t.Errorf("a file of the image's user is of %s on the disk", got)
	}
	// Its programs with set-user-ID make its users root of the image, not of the machine.
	b = newBoxed(t)
	p := start(t, b.runtime, shell("/bin/id -u; /v/id -u; echo up; exec /bin/busybox sleep 600", func(s *Spec) { s.Isolation, s.Account = &b.iso, "app" }))
	follow(t, p, "0\n1000\nup\n")
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
	if err != nil || !strings.Contains(string(status), fmt.Sprintf("\nUid:\t%[1]d\t%[1]d\t%[1]d\t%[1]d\n", uint32(base)+1000)) {
		t.Errorf("on the machine it is %s, %v", status, err)
	}
	var out strings.Builder
	if code, err := p.Exec(t.Context(), ExecOptions{Argv: []string{"/bin/busybox", "id", "-u"}, Stdout: &out}); err != nil || code != 0 || out.String() != "1000\n" {
		t.Errorf("exec: %d, %v, %q", code, err, out.String())
	}
}

// TestUsersRefused: what cannot be id-mapped is refused in one sentence, or shown as everybody sees it.
func TestUsersRefused(t *testing.T) {
	b := newBoxed(t)
	refused := func(change func(*boxed, *Spec), want string) {
		t.Helper()
		b := newBoxed(t)
		s := shell("true", func(s *Spec) { s.Isolation = &b.iso })
		change(b, &s)
		if _, err := b.runtime.Start(t.Context(), s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	refused(func(b *boxed, _ *Spec) { b.iso.Mounts = []Mount{{Source: "/sys/kernel", Target: "/k"}} }, "run the image as your own user (runAsUser: 20001), or mount it read-only")
	refused(func(_ *boxed, s *Spec) { s.Account = "70000" }, "numbers from 0 to 65535 and your own (20001, 20003) are allowed")
	refused(func(b *boxed, _ *Spec) { b.iso.Users.UID = 0 }, "root and -1 are not allowed")
	refused(func(b *boxed, _ *Spec) { b.iso.Users.Base = 1000 }, "allowed are 65536")
	refused(func(b *boxed, _ *Spec) { b.iso.Root = nil }, "for containers in images")
	b.iso.Mounts = []Mount{{Source: "/sys/kernel", Target: "/k", ReadOnly: true}}
	if got := b.run("root", "busybox test -d /k && echo shown"); got != "shown\n" {
		t.Errorf("a read-only mount: %q", got)
	}
}
