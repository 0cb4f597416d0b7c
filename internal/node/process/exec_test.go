package process

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/muster-dev/muster/internal/node/rig"
)

func TestExec(t *testing.T) {
	eachTier(t, func(t *testing.T, tier func(*Spec)) {
		p := start(t, newRuntime(t), shell("exec sleep 600", tier, func(s *Spec) {
			s.Env = append(s.Env, "OWN=own")
			s.Dir = "/usr"
		}))
		big := strings.Repeat("0123456789abcdef", 64<<10)
		for _, c := range []struct {
			name        string
			options     ExecOptions
			code        int
			out, errOut string
		}{
			{"output", ExecOptions{Argv: []string{"sh", "-c", "echo out; echo err >&2; exit 3"}}, 3, "out\n", "err\n"},
			{"signal", ExecOptions{Argv: []string{"sh", "-c", "kill -9 $$"}}, 137, "", ""},
			{"environment", ExecOptions{Argv: []string{"sh", "-c", "echo $OWN $MORE $PWD"}, Env: []string{"MORE=more"}}, 0, "own more /usr\n", ""},
			{"folder", ExecOptions{Argv: []string{"pwd"}, Dir: "/"}, 0, "/\n", ""},
			{"no input", ExecOptions{Argv: []string{"cat"}}, 0, "", ""},
			{"input", ExecOptions{Argv: []string{"cat"}, Stdin: strings.NewReader(big)}, 0, big, ""},
			{"input not read", ExecOptions{Argv: []string{"true"}, Stdin: strings.NewReader(big)}, 0, "", ""},
			{"background", ExecOptions{Argv: []string{"sh", "-c", "sleep 600 & echo up"}}, 0, "up\n", ""},
		} {
			t.Run(c.name, func(t *testing.T) {
				var out, errOut bytes.Buffer
				c.options.Stdout, c.options.Stderr = &out, &errOut
				code, err := p.Exec(t.Context(), c.options)
				if err != nil || code != c.code {
					t.Errorf("Exec = %d, %v, want %d", code, err, c.code)
				}
				if out.String() != c.out || errOut.String() != c.errOut {
					t.Errorf("output %.50q (%d bytes), errors %q", out.String(), out.Len(), errOut.String())
				}
			})
		}
		t.Run("not found", func(t *testing.T) {
			_, err := p.Exec(t.Context(), ExecOptions{Argv: []string{"no-such-command"}})
			var start *StartError
			if !errors.As(err, &start) || start.Reason != ReasonNotFound {
				t.Errorf("Exec = %v, want not found", err)
			}
		})
		t.Run("the same place", func(t *testing.T) {
			var out bytes.Buffer
			_, err := p.Exec(t.Context(), ExecOptions{Argv: []string{"sh", "-c", "hostname; readlink /proc/self/ns/pid"}, Stdout: &out})
			inside := p.Spec().Isolation != nil
			if err != nil || strings.HasPrefix(out.String(), "inside\n") != inside {
				t.Errorf("Exec = %v, output %q", err, out.String())
			}
		})
		t.Run("cancelled", func(t *testing.T) {
			mark, runs := "mark-"+rand.Text(), rig.NewPipe(t)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error)
			go func() {
				_, err := p.Exec(ctx, ExecOptions{Argv: []string{"sh", "-c", runs.Say("up") + "; sleep 600; : " + mark}})
				done <- err
			}()
			runs.Hear()
			cancel()
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Errorf("Exec = %v, want that it was cancelled", err)
			}
			eventually(t, "it is gone", func() bool { return alive(mark) == 0 })
		})
		t.Run("the container ends", func(t *testing.T) {
			mark, runs := "mark-"+rand.Text(), rig.NewPipe(t)
			done := make(chan error)
			var code int
			go func() {
				var err error
				code, err = p.Exec(t.Context(), ExecOptions{Argv: []string{"sh", "-c", runs.Say("up") + "; sleep 600; : " + mark}})
				done <- err
			}()
			runs.Hear()
			if err := p.Kill(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := <-done; err != nil || code != 137 {
				t.Errorf("Exec = %d, %v, want 137", code, err)
			}
			if n := alive(mark); n != 0 {
				t.Errorf("%d processes are left", n)
			}
			if _, err := p.Exec(t.Context(), ExecOptions{Argv: []string{"true"}}); !errors.Is(err, ErrEnded) {
				t.Errorf("Exec after the end = %v, want ErrEnded", err)
			}
		})
	})
}

// TestCopyOutputToASlowReader: what was written before the end arrives,
// however slow the reader is.
func TestCopyOutputToASlowReader(t *testing.T) {
	from, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = from.Close() }()
	const size = 60_000 // more than is read at once, and less than a pipe holds
	if _, err := to.Write(make([]byte, size)); err != nil {
		t.Fatal(err)
	}
	reader := &gatedWriter{entered: make(chan struct{}), gate: make(chan struct{})}
	s := &streams{out: from}
	s.outputs.Go(func() { copyOutput(reader, from) })
	// The reader has the first part in its hands when the command ends. A
	// process that the command left has the pipe open still.
	<-reader.entered
	drained := make(chan struct{})
	go func() { defer close(drained); s.drain() }()
	close(reader.gate)
	<-drained
	if reader.n != size {
		t.Errorf("%d bytes arrived, want %d", reader.n, size)
	}
	if err := to.Close(); err != nil {
		t.Fatal(err)
	}
}

// gatedWriter says when it is first written to, and then waits for the gate.
type gatedWriter struct {
	entered, gate chan struct{}
	n             int
}

// Write counts.
func (w *gatedWriter) Write(p []byte) (int, error) {
	if w.n == 0 {
		close(w.entered)
		<-w.gate
	}
	w.n += len(p)
	return len(p), nil
}

func TestExecTerminal(t *testing.T) {
	eachTier(t, func(t *testing.T, tier func(*Spec)) {
		p := start(t, newRuntime(t), shell("exec sleep 600", tier))
		sizes := make(chan Size, 1)
		sizes <- Size{Columns: 100, Rows: 30}
		in, type_ := io.Pipe()
		outR, outW := io.Pipe()
		done := make(chan int)
		go func() {
			code, err := p.Exec(t.Context(), ExecOptions{
				Argv: []string{"sh", "-c", "tty; stty size; read line; until stty size | grep '20 90'; do sleep 0.01; done; echo got $line; exit 4"},
				TTY:  true, Stdin: in, Stdout: outW, Resize: sizes,
			})
			if err != nil {
				t.Error(err)
			}
			_ = outW.Close()
			done <- code
		}()
		var text strings.Builder
		buf := make([]byte, 1024)
		until := func(what string) {
			for !strings.Contains(text.String(), what) {
				n, err := outR.Read(buf)
				text.Write(buf[:n])
				if err != nil {
					t.Fatalf("output %q ends without %q", text.String(), what)
				}
			}
		}
		until("30 100\r\n")
		if !strings.HasPrefix(text.String(), "/dev/pts/") {
			t.Errorf("output = %q, want a terminal", text.String())
		}
		sizes <- Size{Columns: 90, Rows: 20}
		if _, err := type_.Write([]byte("hello\n")); err != nil {
			t.Fatal(err)
		}
		until("got hello\r\n")
		if !strings.Contains(text.String(), "20 90\r\n") {
			t.Errorf("output = %q, want the new size", text.String())
		}
		if code := <-done; code != 4 {
			t.Errorf("code = %d, want 4", code)
		}
	})
}

func TestAttach(t *testing.T) {
	t.Run("pipe", func(t *testing.T) {
		eachTier(t, func(t *testing.T, tier func(*Spec)) {
			p := start(t, newRuntime(t), shell("cat; echo end >&2", tier, func(s *Spec) { s.Stdin, s.StdinOnce = true, true }))
			var out, errOut bytes.Buffer
			err := p.Attach(t.Context(), AttachOptions{Stdin: strings.NewReader("one\ntwo"), Stdout: &out, Stderr: &errOut})
			if err != nil {
				t.Fatal(err)
			}
			if out.String() != "one\ntwo" || errOut.String() != "end\n" {
				t.Errorf("output %q, errors %q", out.String(), errOut.String())
			}
			wait(t, p)
		})
	})
	t.Run("terminal", func(t *testing.T) {
		eachTier(t, func(t *testing.T, tier func(*Spec)) {
			p := start(t, newRuntime(t), shell("read line; stty size; echo got $line", tier, func(s *Spec) { s.Stdin, s.TTY = true, true }))
			in, type_ := io.Pipe()
			var out bytes.Buffer
			done := make(chan error)
			go func() { done <- p.Attach(t.Context(), AttachOptions{Stdin: in, Stdout: &out}) }()
			if err := p.Resize(t.Context(), Size{Columns: 70, Rows: 10}); err != nil {
				t.Fatal(err)
			}
			if _, err := type_.Write([]byte("hello\n")); err != nil {
				t.Fatal(err)
			}
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(out.String(), "10 70\r\ngot hello\r\n") {
				t.Errorf("output = %q", out.String())
			}
		})
	})
	t.Run("no input", func(t *testing.T) {
		p := start(t, newRuntime(t), shell("exec sleep 600"))
		err := p.Attach(t.Context(), AttachOptions{Stdin: strings.NewReader("x"), Stdout: io.Discard})
		if err == nil || !strings.Contains(err.Error(), "no standard input") {
			t.Errorf("Attach = %v, want that there is no input", err)
		}
	})
}
