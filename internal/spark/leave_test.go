package spark

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/muster-dev/muster/internal/foreman/shift"
)

// TestReports: what a worker says of its executors is heard, in whatever pieces it comes,
// and everything else is passed on.
func TestReports(t *testing.T) {
	var out bytes.Buffer
	r := &reports{to: &out}
	text := "17:38:17 INFO Worker: Asked to launch executor app-1/0 for shell\nhello\n17:38:18 WARN Worker: oh\n17:38:17 INFO Worker: Running Spark version 4.3.0\n" +
		"17:38:19 INFO Worker: Executor app-1/0 finished with state FAILED message Command exited with code 52 exitStatus 52\n" +
		"17:38:20 INFO Worker: Asked to launch executor app-1/1 for shell\n"
	for _, piece := range []string{text[:3], text[3:70], text[70:]} {
		if n, err := r.Write([]byte(piece)); n != len(piece) || err != nil {
			t.Fatal(n, err)
		}
	}
	if out.String() != "hello\n17:38:18 WARN Worker: oh\n" {
		t.Errorf("passed on: %q", out.String())
	}
	for line, want := range map[string]bool{
		"Executor app-1/1 finished with state EXITED message Command exited with code 0 exitStatus 0":   true,
		"Executor app-1/1 finished with state EXITED message Command exited with code 10 exitStatus 10": false,
		"Executor app-1/1 finished with state KILLED message Runner thread interrupted exitStatus 143":  false,
		"Executor app-1/1 finished with state KILLED":                                                   false,
		"Executor app-1/1 finished with state EXITED":                                                   false,
	} {
		r.executors["app-1/1"] = nil
		running := r.running()
		if !slices.Equal(running, []string{"app-1/1"}) {
			t.Fatal(running)
		}
		done := make(chan bool)
		go func() {
			_, inOrder := r.await(running, nil)
			done <- inOrder
		}()
		_, _ = fmt.Fprintf(r, "17:38:21 INFO Worker: Executor app-1/0 finished with state EXITED message again exitStatus 0\n17:38:21 INFO Worker: %s\n", line)
		if got := <-done; got != want {
			t.Errorf("%q: in order %v", line, got)
		}
	}
	gone := make(chan struct{})
	close(gone)
	r.executors["app-1/2"] = nil
	for _, running := range [][]string{{"app-1/2"}, nil} {
		if _, inOrder := r.await(running, gone); inOrder {
			t.Errorf("%q: in order", running)
		}
	}
}

// TestGivingBack has a worker of its own kind: who has no executor, or one that does not
// end well, did not go in order, and nothing of it is left.
func TestGivingBack(t *testing.T) {
	const launch = `echo "00:00:00 INFO Worker: Asked to launch executor a/0 for x"; `
	finished := func(how string) string {
		return `wait $!; echo "00:00:00 INFO Worker: Executor a/0 finished with state ` + how + `"; sleep 60`
	}
	for name, c := range map[string]struct {
		worker string
		want   error
	}{
		"in order":    {launch + `(trap 'exit 0' PWR; echo ready; while :; do sleep 0.01; done) & ` + finished("EXITED message x exitStatus 0"), nil},
		"badly":       {launch + `(trap 'exit 3' PWR; echo ready; while :; do sleep 0.01; done) & ` + finished("EXITED message x exitStatus 3"), ErrStopped},
		"no executor": {`echo ready; sleep 60`, ErrStopped},
		"late":        {launch + `echo ready; sleep 1000; sleep 1000 & wait $!; echo "00:00:00 INFO Worker: Executor a/0 finished with state EXITED message x exitStatus 158"; sleep 60`, ErrStopped},
		"worker gone": {launch + `echo ready; sleep 0.2`, ErrStopped},
	} {
		t.Run(name, func(t *testing.T) {
			out := &seen{word: "ready", come: make(chan struct{})}
			said := &reports{to: out}
			w, err := start(t.Context(), os.Environ(), said, "bash", "-c", c.worker)
			if err != nil {
				t.Fatal(err)
			}
			<-out.come
			done := make(chan error, 1)
			go func() { done <- giveBack(w, said) }()
			select {
			case err := <-done:
				if !errors.Is(err, c.want) {
					t.Errorf("%v, want %v", err, c.want)
				}
			case <-time.After(30 * time.Second):
				w.kill()
				t.Fatal("it waits for ever: somebody was not told")
			}
			if w.running() {
				t.Error("its worker runs")
			}
		})
	}
}

// seen tells once a word was written.
type seen struct {
	word string
	text []byte
	come chan struct{}
}

// Write implements io.Writer.
func (s *seen) Write(p []byte) (int, error) {
	before := bytes.Contains(s.text, []byte(s.word))
	s.text = append(s.text, p...)
	if !before && bytes.Contains(s.text, []byte(s.word)) {
		close(s.come)
	}
	return len(p), nil
}

// TestToldToLeave: one that was told to go before it had anything is stopped, told or not;
// only who may leave looks for the file.
func TestToldToLeave(t *testing.T) {
	datum := t.TempDir()
	e := &Executor{Datum: datum, Leaves: true, Apart: true, Master: "127.0.0.1:1", Python: "python3", Scratch: t.TempDir(), Out: &bytes.Buffer{}}
	if e.leaves() {
		t.Error("it leaves without being told")
	}
	if err := errors.Join(os.Mkdir(filepath.Join(datum, shift.OutFolder), 0o700), os.WriteFile(filepath.Join(datum, shift.LeaveFile), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if !e.leaves() || (&Executor{Datum: datum}).leaves() {
		t.Error("who may leave does, and nobody else")
	}
	equip(t, "4.3.0", "", "17.0.15")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := e.Run(ctx); !errors.Is(err, ErrStopped) {
		t.Errorf("before it began: %v", err)
	}
}

// Events as Spark 4.3 writes them, as far as they count.
const (
	submitted = `{"Event":"SparkListenerStageSubmitted","Stage Info":{"Stage ID":%d,"Stage Attempt ID":0,"RDD Info":[{"RDD ID":%d},{"RDD ID":0}]}}`
	begins    = `{"Event":"SparkListenerTaskStart","Stage ID":%d,"Stage Attempt ID":0,"Task Info":{"Task ID":0,"Index":0,"Attempt":0,"Partition ID":%d}}`
	ends      = `{"Event":"SparkListenerTaskEnd","Stage ID":%d,"Task Type":"%s","Task End Reason":{"Reason":"%s"},"Task Info":{"Index":0,"Partition ID":%d}}`
	removed   = `{"Event":"SparkListenerExecutorRemoved","Timestamp":1,"Executor ID":"0","Removed Reason":"Executor decommission: "}`
	other     = `{"Event":"SparkListenerEnvironmentUpdate","Spark Properties":{"Stage ID":7}}`
	finishes  = `{"Event":"SparkListenerApplicationEnd","Timestamp":2}`
)

// TestRepeated: where an executor has left, each task may run once; where none has, tasks
// run as often as they do.
func TestRepeated(t *testing.T) {
	lines := func(lines ...string) string { return strings.Join(lines, "\n") + "\n" }
	stage, begin, end := func(id, rdd int) string { return fmt.Sprintf(submitted, id, rdd) }, func(stage, n int) string { return fmt.Sprintf(begins, stage, n) }, func(stage int, kind, how string, n int) string {
		return fmt.Sprintf(ends, stage, kind, how, n)
	}
	const shuffles, results = "ShuffleMapTask", "ResultTask"
	for name, c := range map[string]struct{ log, says string }{
		"nobody left":             {lines(stage(0, 2), begin(0, 0), begin(0, 0), finishes), ""},
		"each once":               {lines(other, stage(0, 2), begin(0, 0), begin(0, 1), removed, stage(1, 5), begin(1, 0), begin(1, 1), finishes), ""},
		"one again":               {lines(stage(0, 2), begin(0, 0), begin(0, 3), removed, begin(0, 3), finishes), "partition 3 of stage 0 ran again"},
		"before it left":          {lines(begin(4, 3), begin(4, 3), removed, finishes), "partition 3 of stage 4 ran again"},
		"left at the end":         {lines(begin(0, 3), begin(0, 3), finishes, removed), ""},
		"cut off":                 {lines(begin(0, 3), removed, begin(0, 3)) + `{"Event":"Spark`, "ran again"},
		"for a later job":         {lines(stage(0, 2), begin(0, 1), end(0, shuffles, "Success", 1), removed, stage(4, 2), begin(4, 1), end(4, shuffles, "Success", 1), finishes), "partition 1 of stage 4 ran again"},
		"the same for two jobs":   {lines(stage(0, 2), begin(0, 1), end(0, results, "Success", 1), removed, stage(4, 2), begin(4, 1), end(4, results, "Success", 1), finishes), ""},
		"failed, for a later job": {lines(stage(0, 2), begin(0, 1), end(0, shuffles, "FetchFailed", 1), removed, stage(4, 2), begin(4, 1), end(4, shuffles, "Success", 1), finishes), ""},
		"no events":               {"what?\n", "reading an event"},
		"nothing":                 {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range map[string]string{"app-1": lines(begin(0, 0), finishes), "app-2.inprogress": c.log} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := repeated(dir); (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want %q", err, c.says)
			}
		})
	}
	// The script is the same the next time.
	if err := repeated(t.TempDir()); err == nil || !strings.Contains(err.Error(), "spark.eventLog.enabled") || lasting(err) != shift.Unfit {
		t.Errorf("without a log: %v, %d", err, lasting(err))
	}
}
