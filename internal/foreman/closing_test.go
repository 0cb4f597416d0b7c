package foreman_test

import (
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/internal/foreman/shift"
	"github.com/muster-dev/muster/internal/foreman/worker"
)

// A follower whose leader is done has as long as it takes to put in order what it wrote:
// its grace is for when it is told to end by others.
func TestFollowerCloses(t *testing.T) {
	s := open(t)
	w := s.lent(led)
	gate, folder := t.TempDir(), t.TempDir()
	line := `trap 'sleep 0.3; echo all > $OUT/all; exit 143' TERM; touch ` + gate + `/ready; while :; do sleep 0.02; done`
	signals, ended, led := make(chan os.Signal, 1), make(chan int, 1), make(chan int, 1)
	slow := worker.MemberOptions{
		Post: s.post(pod{member: "executor/0", name: "a", attempt: 1}), Work: "run.stage", Folder: folder, Name: "executor/0", Duty: worker.Follows, Signals: signals,
		Stdout: os.Stderr, Stderr: os.Stderr, Words: []string{"sh", "-c", line}, Environ: append(os.Environ(), "OUT="+folder+"/out"), Grace: time.Nanosecond,
	}
	go func() { ended <- worker.RunMember(s.Context(), slow) }()
	other, otherEnded := s.follows(pod{member: "executor/1", name: "b", attempt: 1}, forEver)
	leader := pod{member: "driver/0", name: "c", attempt: 1}
	go func() { led <- s.leads(leader, `while ! [ -e `+gate+`/ready ]; do sleep 0.02; done`, nil) }()
	select {
	case code := <-ended:
		t.Fatalf("the follower did not come to the end of it: %d", code)
	case code := <-led:
		if code != 0 {
			t.Fatalf("the leader: %d", code)
		}
	}
	signals <- syscall.SIGTERM
	other <- syscall.SIGTERM
	if code, second := <-ended, <-otherEnded; code != 0 || second != 0 {
		t.Errorf("the followers: %d and %d", code, second)
	}
	if err := w.Unite(t.Context(), []string{"driver/0"}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"all": "all\n"}, s.made(w)); diff != "" {
		t.Error(diff)
	}
}

// TestClosesUnderAWorker: a worker of a work that is over may be writing how its datum
// ended, into a folder that is being removed.
func TestClosesUnderAWorker(t *testing.T) {
	s := open(t)
	for range 20 {
		s.work(shift.Program{Command: []string{"true"}}, "a")
		folder := filepath.Join(s.Folder("run.stage"), "late")
		if err := os.MkdirAll(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		begun, ended := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(ended)
			for i := range 300 {
				_ = os.WriteFile(filepath.Join(folder, strconv.Itoa(i)), nil, 0o600) // or it is gone
				if i == 10 {
					close(begun)
				}
			}
		}()
		<-begun
		if err := s.Close("run.stage"); err != nil {
			t.Error(err)
		}
		<-ended
	}
}
