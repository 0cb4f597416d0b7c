package process

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/muster-dev/muster/internal/node/rig"
)

// TestMountsOfUsers: a mount of a container's user is opened with the user's rights, also where the file
// server refuses root. Folders of others are refused, although the shim is root; links lead nowhere else.
func TestMountsOfUsers(t *testing.T) {
	needRoot(t)
	uid, gid := uint32(61234), uint32(61235)
	home, other := rig.Squashed(t, int(uid), int(gid)), rig.Folder(t, 61333, 61333, 0o700)
	own := rig.Folder(t, int(uid), int(gid), 0o700)
	if err := errors.Join(os.Symlink(other, own+"/link"), os.Mkdir(own+"/sub", 0o700), os.Chown(own+"/sub", int(uid), int(gid))); err != nil {
		t.Fatal(err)
	}
	as := func(s *Spec) { s.UID, s.GID = &uid, &gid }
	iso := Isolation{Confine: true, Mounts: []Mount{
		{Source: home, Target: "/muster-test", AsUser: true}, {Source: own, SubPath: "sub", Target: "/muster-test-sub", AsUser: true},
		{Source: home, Target: "/muster-test-ro", AsUser: true, ReadOnly: true},
	}}
	const script = `echo it > /muster-test/file && cat /muster-test-ro/file; touch /muster-test-sub/x && echo made
touch /muster-test-ro/y 2>/dev/null || echo refused; grep -c '/muster-test[a-z-]* .*nosuid,nodev' /proc/self/mountinfo`
	if got := inside(t, newRuntime(t), iso, script, as); got != "it\nmade\nrefused\n3\n" {
		t.Errorf("it wrote %q", got)
	}
	if info, err := os.Stat(filepath.Join(own, "sub", "x")); err != nil || !ownedBy(info, uid) {
		t.Errorf("the file is %v, error %v", info, err)
	}
	for name, m := range map[string]Mount{
		"another's folder":  {Source: other, Target: "/muster-test", AsUser: true},
		"by a link":         {Source: own + "/link", Target: "/muster-test", AsUser: true},
		"by a link below":   {Source: own, SubPath: "link", Target: "/muster-test", AsUser: true},
		"what is not there": {Source: own, SubPath: "nothing", Target: "/muster-test", AsUser: true},
	} {
		_, err := newRuntime(t).Start(t.Context(), shell("true", as, func(s *Spec) { s.Isolation = &Isolation{Mounts: []Mount{m}} }))
		var refused *StartError
		if !errors.As(err, &refused) || refused.Reason != ReasonIsolation {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
}

// TestTerminationMessageOfAUser: the file is read with the rights of the container's user, although the user
// can put a link in the place of any folder above it.
func TestTerminationMessageOfAUser(t *testing.T) {
	needRoot(t)
	uid := uint32(61234)
	secret := filepath.Join(rig.Passable(t), "folder")
	if err := errors.Join(os.Mkdir(secret, 0o755), os.WriteFile(secret+"/message", []byte("secret"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ script, want string }{
		"its own": {`mkdir "$0/root" && printf words > "$0/root/message"`, "words"},
		"a link":  {`ln -s "$1" "$0/root"`, ""},
	} {
		home := rig.Folder(t, int(uid), int(uid), 0o700)
		p := start(t, newRuntime(t), shell(c.script, func(s *Spec) {
			s.UID, s.GID, s.Argv = &uid, &uid, append(s.Argv, home, secret)
			s.TerminationMessageRoot, s.TerminationMessagePath, s.TerminationMessageAsUser = home+"/root", home+"/root/message", true
		}))
		if exit := wait(t, p); exit.Message != c.want || exit.Code != 0 {
			t.Errorf("%s: the message is %q, the code %d, %s", name, exit.Message, exit.Code, strings.TrimSpace(output(t, p)))
		}
	}
}

func ownedBy(info os.FileInfo, uid uint32) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && stat.Uid == uid
}
