package website

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"

	"github.com/muster-dev/muster/internal/cli/top"
	"github.com/muster-dev/muster/internal/door/visitor"
	"github.com/muster-dev/muster/internal/passage"
	"github.com/muster-dev/muster/internal/people/control"
	"github.com/muster-dev/muster/internal/people/session"
	"github.com/muster-dev/muster/internal/people/userapi"
	"github.com/muster-dev/muster/internal/people/web"
)

// Machine makes the console that of all users of a machine.
type Machine struct {
	// Passage passes users on, each as themselves. The console closes it.
	Passage *passage.Machine
	// Administrator reports whether the caller of a command may list and end the sessions and tokens of
	// all users.
	Administrator func(*http.Request) (bool, error)
}

const (
	// userConnections bounds the connections of each user to the console of a machine.
	userConnections = 64
	// entries and tableBytes bound the table of all users: some 120 with as many sessions and tokens as
	// each may have.
	entries, tableBytes = 10_000, 16 << 20
)

func limitsOf(m *Machine) session.Limits {
	if m == nil {
		return session.Limits{}
	}
	return session.Limits{Total: entries, Bytes: tableBytes}
}

// Commands answers the requests of commands that come by the socket of the machine.
func (c *Console) Commands() http.Handler {
	return (&control.Server{Console: c.console, Port: c.Port, Caller: control.Peer, Administrator: c.o.Machine.check}).Handler()
}

var errNoAdministrator = errors.New("only administrators of the machine list the sessions and tokens of all users: leave --all out for your own")

func (m *Machine) check(r *http.Request) error {
	is, err := m.Administrator(r)
	if err == nil && !is {
		err = errNoAdministrator
	}
	return err
}

// admit refuses requests of users whom the machine no longer has, and of connections of another user.
// Connections of reverse proxies are compared, too: every user of the machine can connect from any of its
// addresses.
func (m *Machine) admit(r *http.Request, caller session.Caller) error {
	uid, ok := control.UIDOf(caller.User)
	if !ok {
		return fmt.Errorf("%.60q is no user of this machine", caller.User)
	}
	if err := m.Passage.Known(r.Context(), uid); err != nil {
		return err
	}
	return web.Connections{Owner: func(session.Caller) (uint32, bool) { return uid, true }}.Admit(r, caller)
}

// Address returns where browsers find the console, or why they do not.
func (c *Console) Address() (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.trouble != nil:
		return "", c.trouble
	case c.o.Config.URL != "":
		return c.o.Config.URL, nil
	}
	return fmt.Sprintf("http://localhost:%d", c.port), nil
}

// machineAnswers has answers for users who may not read what they are made of: Muster reads it and shows
// what the caller may see, as for the commands.
type machineAnswers struct{ reviewer }

// GPUs implements [web.Answers].
func (machineAnswers) GPUs(ctx context.Context, way web.Way) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	door := visitor.OnMachine(&http.Client{Transport: way.Transport}, way.Server.String()+userapi.DoorPath)
	var report top.Report
	if err := door.Ask(ctx, way.Namespace, "/top", nil, &report); err != nil {
		if refused, ok := errors.AsType[*visitor.Refused](err); ok && refused.Status == http.StatusForbidden {
			return nil, &web.Problem{Status: http.StatusForbidden, Err: err}
		}
		return nil, problem(err)
	}
	return report, nil
}

// unprivileged returns the first port at which every user of the machine may listen.
func unprivileged() int {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_unprivileged_port_start")
	first, failed := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || failed != nil {
		return 1024
	}
	return first
}

// warn tells about a port that another user can take while Muster is down.
func (c *Console) warn() {
	if c.o.Machine == nil || len(c.o.Passed) > 0 || c.o.Config.Certificate != "" {
		return
	}
	if port, first := c.Port(), unprivileged(); port >= first {
		c.o.Say("console: every user may listen at port %d while Muster is down, and show pages of their own there: choose a port below %d in config.yaml, or let systemd hold the port", port, first)
	}
}
