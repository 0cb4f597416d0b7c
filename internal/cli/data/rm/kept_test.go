package rm

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/terminal"
	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/holder"
)

// TestUntil: a removal names the processes that users started, and not the running Muster, which
// need not end.
func TestUntil(t *testing.T) {
	noon := time.Date(2026, 11, 28, 12, 0, 0, 0, time.Local)
	muster := holder.Holder{Boot: "b", Space: "s", PID: 5, Ticks: "77"}
	own, mount, put := muster, muster, muster
	own.Command = "muster up"
	mount.PID, mount.Command = 6, "muster data mount"
	put.PID, put.Command = 7, "muster data put"
	reused := own
	reused.Ticks = "78"
	hold := func(h holder.Holder, minutes int) data.Holding {
		return data.Holding{Holder: h, Until: noon.Add(time.Duration(minutes) * time.Minute)}
	}
	for name, c := range map[string]struct {
		held []data.Holding
		want string
	}{
		"no lease":          {},
		"Muster alone":      {[]data.Holding{hold(own, 9)}, " once Muster no longer reads or writes data itself"},
		"a mount":           {[]data.Holding{hold(own, 9), hold(mount, 2)}, " once process 6 (muster data mount) ends, which may be using it, or after 12:02:00"},
		"the longest":       {[]data.Holding{hold(put, 3), hold(mount, 2)}, " once process 7 (muster data put) ends, which may be using it, or after 12:03:00"},
		"another Muster up": {[]data.Holding{hold(reused, 1)}, " once process 5 (muster up) ends, which may be using it, or after 12:01:00"},
	} {
		if got := until(c.held, muster); got != c.want {
			t.Errorf("%s: until() = %q, want %q", name, got, c.want)
		}
	}
}

// TestFreedOnACluster: muster data gc refuses there, so a removal does not name it.
func TestFreedOnACluster(t *testing.T) {
	home := t.TempDir()
	kubeconfig := filepath.Join(home, "cluster")
	const config = `{"apiVersion":"v1","kind":"Config","current-context":"c","clusters":[{"name":"c","cluster":{"server":"http://127.0.0.1:1"}}],
"contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],"users":[{"name":"u","user":{}}]}`
	if err := os.WriteFile(kubeconfig, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	factory := connection.New(terminal.Streams{}, "test")
	factory.Getenv = func(name string) string {
		return map[string]string{connection.EnvHome: home, "KUBECONFIG": kubeconfig}[name]
	}
	if got, err := freed(t.Context(), factory); err != nil || got != onCluster {
		t.Errorf("%q, %v; want %q", got, err, onCluster)
	}
}
