package up

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/instance"
	"github.com/muster-dev/muster/internal/controlplane"
)

func TestTaken(t *testing.T) {
	began := time.Date(2030, 1, 2, 3, 4, 5, 0, time.Local)
	locked := &controlplane.LockedError{DataDir: "/data", PID: os.Getpid()}
	other := errors.New("the disk is on fire")
	for _, test := range []struct {
		name  string
		state instance.State
		err   error
		want  []string
	}{
		{"ready", instance.State{Phase: instance.Ready, Started: began, Tier: "plain", Server: "https://127.0.0.1:6443"}, locked,
			[]string{"is already running in ", fmt.Sprintf("process %d,", os.Getpid()), "since 2030-01-02 03:04:05, 3m 12s ago", "plain tier", "https://127.0.0.1:6443",
				"muster --home x status", "muster --home x down", "muster.log"}},
		{"starting", instance.State{Phase: instance.Starting, Started: began}, locked, []string{"is already starting in ", "muster --home x down"}},
		{"stopped, but not gone", instance.State{Phase: instance.Stopped, Started: began}, locked, []string{"just ending", "try again"}},
		{"somebody else's lock", instance.State{Phase: instance.Ready, Started: began}, &controlplane.LockedError{DataDir: "/data", PID: 1}, []string{"in use by process 1"}},
		{"something else", instance.State{Phase: instance.Ready, Started: began}, other, []string{"on fire"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			home := instance.Home(t.TempDir())
			if err := home.Write(test.state); err != nil {
				t.Fatal(err)
			}
			err := taken(home, invocation{program: "muster --home x"}, began.Add(3*time.Minute+12*time.Second), test.err)
			for _, word := range test.want {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("nothing says %q:\n%v", word, err)
				}
			}
			var code *exit.Error
			if errors.As(err, &code) && code.Code != exit.Failure {
				t.Errorf("exit code %d, want %d", code.Code, exit.Failure)
			}
		})
	}
}

// A folder in which no Muster has said anything yet: the lock's own words.
func TestTakenByTheUnknown(t *testing.T) {
	home := instance.Home(filepath.Join(t.TempDir(), "none"))
	locked := &controlplane.LockedError{DataDir: string(home), PID: 1}
	if err := taken(home, invocation{program: "muster"}, time.Now(), locked); !errors.Is(err, locked) {
		t.Errorf("taken() = %v, want %v", err, locked)
	}
}
