package foreman_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/muster-dev/muster/internal/foreman"
	"github.com/muster-dev/muster/internal/foreman/shift"
)

// cpu is what this process and the programs that it ran have used.
func cpu() (sum time.Duration) {
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var used syscall.Rusage
		if err := syscall.Getrusage(who, &used); err == nil {
			sum += time.Duration(used.Utime.Nano() + used.Stime.Nano())
		}
	}
	return sum
}

// dedicated is a worker as a process of its own.
func dedicated(folder string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envWork+"="+folder)
	cmd.Stderr = os.Stderr
	return cmd
}

// BenchmarkDatums is what a small datum costs beside its record: the foreman, two
// workers and the programs. The program of its own is what remains of it without them.
func BenchmarkDatums(b *testing.B) {
	f, err := foreman.New(foreman.Options{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	b.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			b.Error(err)
		}
	})
	spec := foreman.Spec{Name: "bench", Tries: 1, Program: shift.Program{Command: []string{"cp", "-r", "$(MUSTER_INPUT_IN)/.", "$(MUSTER_OUTPUT)"}, Inputs: []string{"in"}}}
	for i := range b.N {
		spec.Datums = append(spec.Datums, foreman.Datum{ID: fmt.Sprint(i), Name: fmt.Sprint(i), Bytes: 5})
	}
	spec.Fetch = func(_ context.Context, d foreman.Datum, folder *os.Root) error {
		err := folder.MkdirAll("in", 0o755)
		return errors.Join(err, folder.WriteFile("in/"+d.Name, []byte(d.Name), 0o600))
	}
	spec.Record = func(context.Context, []foreman.Result) error { return nil }
	began := cpu()
	b.ResetTimer()
	w, err := f.Open(ctx, spec)
	if err != nil {
		b.Fatal(err)
	}
	var group sync.WaitGroup
	for range 2 {
		group.Go(func() {
			if err := dedicated(f.Folder("bench")).Run(); err != nil {
				b.Error(err)
			}
		})
	}
	group.Wait()
	if !w.Linger(ctx, time.Minute) || w.Status().Computed != b.N {
		b.Fatalf("%+v", w.Status())
	}
	b.StopTimer()
	b.ReportMetric(float64((cpu()-began).Microseconds())/float64(b.N), "cpu-µs/op")
	if err := f.Close("bench"); err != nil {
		b.Fatal(err)
	}
}
