package instance

import (
	"context"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
	"time"
)

func TestStateOfThisProcess(t *testing.T) {
	home := Home(t.TempDir())
	if _, alive, err := home.Read(); alive || err != nil {
		t.Fatalf("an empty folder: alive %v, error %v", alive, err)
	}
	if err := home.Write(State{Phase: Ready, Tier: "plain"}); err != nil {
		t.Fatal(err)
	}
	s, alive, err := home.Read()
	if err != nil || !alive || s.PID != os.Getpid() || s.Tier != "plain" {
		t.Errorf("got %+v, alive %v, error %v", s, alive, err)
	}
}

func TestAPIDGivenAgainIsNotTheInstance(t *testing.T) {
	home := Home(t.TempDir())
	if err := os.WriteFile(home.file(), []byte(`{"pid":1,"bootTicks":"another-boot/1","phase":"Ready"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, alive, _ := home.Read(); alive {
		t.Error("the state of an earlier boot counts as alive")
	}
	if stopped, err := home.Stop(context.Background()); stopped || err != nil {
		t.Errorf("stopped %v, error %v; process 1 must not be signalled", stopped, err)
	}
}

// TestMain runs, when asked to, the instance that TestStop stops.
func TestMain(m *testing.M) {
	if dir := os.Getenv("INSTANCE_TEST_HOME"); dir != "" {
		if err := Home(dir).Write(State{Phase: Ready}); err != nil {
			os.Exit(2)
		}
		// Waiting for nothing at all would be a deadlock to Go's runtime.
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		<-ctx.Done()
		stop()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestStop(t *testing.T) {
	home := Home(t.TempDir())
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), "INSTANCE_TEST_HOME="+string(home))
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = child.Wait(); close(ended) }()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if _, err := home.Wait(ctx, func(s State, alive bool) bool { return alive && s.Phase == Ready }); err != nil {
		t.Fatal(err)
	}
	if stopped, err := home.Stop(ctx); !stopped || err != nil {
		t.Fatalf("stopped %v, error %v", stopped, err)
	}
	<-ended
	if _, alive, _ := home.Read(); alive {
		t.Error("alive after Stop")
	}
}
