package console

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/website"
	"github.com/muster-dev/muster/internal/people/control"
	"github.com/muster-dev/muster/internal/people/gate"
	"github.com/muster-dev/muster/internal/people/web"
)

// hostName is the form of user@host. The ssh program takes a word that begins with - as an option, such
// as -oProxyCommand.
var hostName = regexp.MustCompile(`^([A-Za-z0-9_][A-Za-z0-9._+-]*@)?[A-Za-z0-9_\[][A-Za-z0-9._:%\[\]-]*$`)

func checkHost(host string) error {
	if !hostName.MatchString(host) || len(host) > 255 {
		return exit.Usage("--ssh %q: give user@host, or a host of your ssh configuration; its first character is a letter or digit", host)
	}
	return nil
}

// tunnel makes a link on another machine, and a tunnel to its console.
//
//  1. Choose a local port, since the link names it.
//  2. Ask the Muster there for a link.
//  3. Make the tunnel and wait until it is open.
//  4. Open the link, and keep the tunnel until ^C.
func (o *options) tunnel(ctx context.Context) error {
	port, err := o.localPort(ctx)
	if err != nil {
		return err
	}
	shared, clean, err := share()
	if err != nil {
		return err
	}
	defer clean()
	link, err := o.remoteLink(ctx, shared, port)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := o.command(ctx, shared, "-N", "-L", fmt.Sprintf("localhost:%d:127.0.0.1:%d", port, link.Port), "-o", "ExitOnForwardFailure=yes", "--", o.ssh)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting ssh: %w", err)
	}
	ended := make(chan outcome, 1)
	go func() { ended <- outcome{cmd.Wait()} }()
	if err := opened(ctx, port, ended); err != nil {
		return err
	}
	if err := o.show(ctx, link); err != nil {
		cancel()
		<-ended
		return err
	}
	if _, err := fmt.Fprintf(o.factory.Streams.Err, "muster: the tunnel to %s is open until ^C\n", o.ssh); err != nil {
		return err
	}
	end := <-ended
	if ctx.Err() != nil {
		return exit.With(exit.Interrupted, nil)
	}
	return fmt.Errorf("the tunnel to %s ended: %w", o.ssh, errors.Join(end.err, errTunnel))
}

var errTunnel = errors.New("run the command again")

// outcome is the end of ssh.
type outcome struct{ err error }

// localPort returns a port that is free at both loopback addresses.
func (o *options) localPort(ctx context.Context) (int, error) {
	wanted := o.port
	if wanted == 0 {
		wanted = website.DefaultPort
	}
	listeners, err := web.Listen(ctx, "", wanted)
	if _, taken := errors.AsType[*web.TakenError](err); taken && o.port == 0 {
		listeners, err = web.Listen(ctx, "", 0)
	}
	if err != nil {
		return 0, fmt.Errorf("--port %d: %w", wanted, err)
	}
	port := web.PortOf(listeners[0])
	for _, l := range listeners {
		err = errors.Join(err, l.Close())
	}
	return port, err
}

// share returns options of ssh by which later commands use the connection of the first, so that a
// password is asked for once. OpenSSH on Windows cannot do that.
func share() (options []string, clean func(), err error) {
	if runtime.GOOS == "windows" {
		return nil, func() {}, nil
	}
	folder, err := os.MkdirTemp("", "muster-ssh-") // its name is short, as the name of a socket has to be
	if err != nil {
		return nil, nil, fmt.Errorf("making a folder for ssh: %w", err)
	}
	return []string{"-o", "ControlMaster=auto", "-o", "ControlPath=" + folder + "/s", "-o", "ControlPersist=30"}, func() { _ = os.RemoveAll(folder) }, nil
}

// command returns a command of ssh that asks on the terminal.
func (o *options) command(ctx context.Context, shared []string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "ssh", append(append([]string{"-T"}, shared...), args...)...) //nolint:gosec // the host was checked
	cmd.Stdin, cmd.Stderr = os.Stdin, o.factory.Streams.Err
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 3 * time.Second
	return cmd
}

// remoteLink asks the Muster of the other machine for a link.
func (o *options) remoteLink(ctx context.Context, shared []string, port int) (control.Link, error) {
	var out bytes.Buffer
	cmd := o.command(ctx, shared, "--", o.ssh, o.program+" console --print -o json --port "+strconv.Itoa(port))
	cmd.Stdout = &out
	if err := cmd.Run(); err != nil {
		return control.Link{}, fmt.Errorf("asking the Muster of %s for a link: %w", o.ssh, err)
	}
	var link control.Link
	if err := json.Unmarshal(out.Bytes(), &link); err != nil {
		return link, fmt.Errorf("reading the answer of muster on %s: %w", o.ssh, err)
	}
	// The other machine is not trusted with addresses that this one opens.
	if want := "http://localhost:" + strconv.Itoa(port) + gate.Entrance + "#"; !strings.HasPrefix(link.URL, want) || strings.ContainsAny(link.URL, " \t\r\n\x1b\"<>") || link.Port < 1 || link.Port > 65535 {
		return link, fmt.Errorf("the muster on %s gave the link %.80q and the port %d: a link begins with %s; update muster there", o.ssh, link.URL, link.Port, want)
	}
	return link, nil
}

// opened waits until the tunnel listens.
func opened(ctx context.Context, port int, ended <-chan outcome) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort("localhost", strconv.Itoa(port)))
		if err == nil {
			return conn.Close()
		}
		select {
		case <-ctx.Done():
			<-ended
			return exit.With(exit.Interrupted, nil)
		case end := <-ended:
			return fmt.Errorf("ssh made no tunnel: %w", errors.Join(end.err, errTunnel))
		case <-tick.C:
		}
	}
}
