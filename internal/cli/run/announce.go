package run

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/device"
	"github.com/muster-dev/muster/internal/cli/member"
	"github.com/muster-dev/muster/internal/cli/terminal"
)

// settle is how long a job must stay in a phase on the way to its start before
// a line is written about it: most pass in a few milliseconds.
const settle = 300 * time.Millisecond

// announcer tells on standard error which phase a job is in, and why.
type announcer struct {
	mu       sync.Mutex
	out      io.Writer
	style    terminal.Style
	terminal bool
	phase    v1alpha1.JobPhase
	message  string
	restarts int32
	progress *terminal.Progress
	// pending writes the line of a phase once it has settled; nil for none.
	pending *time.Timer
	// said are the lines on the way to a start: a job that is refused and
	// tried again passes through the same phases for the same reasons.
	said map[string]bool
}

func newAnnouncer(out io.Writer, style terminal.Style) *announcer {
	return &announcer{out: out, style: style, terminal: terminal.Is(out), said: map[string]bool{}}
}

func (a *announcer) begin(job *v1alpha1.TrainingJob) {
	a.say(terminal.Bold, job.Name, "accepted")
}

func (a *announcer) say(colour terminal.Colour, word, rest string) {
	if rest != "" {
		word, rest = word+":", " "+rest
	}
	_, _ = fmt.Fprintln(a.out, a.style.Paint(colour, word)+rest)
}

// changed tells of a new phase, or a new reason to be in it.
func (a *announcer) changed(job *v1alpha1.TrainingJob) {
	a.mu.Lock()
	defer a.mu.Unlock()
	status := job.Status
	if status.Restarts > a.restarts {
		a.restarts = status.Restarts
		a.hide()
		a.say(terminal.Yellow, "Restarted", fmt.Sprintf("%s so far; %s", terminal.Count(int64(status.Restarts), "failure"), status.Message))
	}
	if status.Phase == "" || status.Phase == a.phase && status.Message == a.message {
		return
	}
	same := status.Phase == a.phase
	a.phase, a.message = status.Phase, status.Message
	switch status.Phase {
	case v1alpha1.JobPreparing:
		a.show(same)
	case v1alpha1.JobWaiting, v1alpha1.JobStarting:
		// On a terminal one line is kept up to date; elsewhere it is written
		// when it changes.
		if a.terminal {
			a.show(same)
			return
		}
		a.hide()
		a.sayLater(status.Phase, status.Message)
	case v1alpha1.JobRunning:
		a.hide()
		if !same {
			clear(a.said)
			a.say(terminal.Green, "Running", describeStart(job))
		}
	case v1alpha1.JobSuspended:
		a.hide()
		a.say(terminal.Yellow, "Suspended", status.Message)
	default:
		a.hide()
	}
}

func describeStart(job *v1alpha1.TrainingJob) string {
	members := int64(len(member.Of(job)))
	for i := range job.Spec.Roles {
		if role := &job.Spec.Roles[i]; device.Shares(role) {
			words := terminal.Count(members, "member") + " on " + device.Asked(role) + " of a GPU"
			if members > 1 {
				words += " each"
			}
			if role.GPUMemory != nil {
				words = strings.Replace(words, " of memory of a GPU", " of a GPU's memory", 1)
			}
			return words
		}
	}
	if job.Status.GPUs > 0 {
		return terminal.Count(members, "member") + " on " + terminal.Count(job.Status.GPUs, "GPU")
	}
	return terminal.Count(members, "member")
}

// sayLater writes the line of a phase once it has settled, unless it has been
// written before.
func (a *announcer) sayLater(phase v1alpha1.JobPhase, message string) {
	line := string(phase) + ": " + message
	if a.said[line] {
		return
	}
	var timer *time.Timer
	timer = time.AfterFunc(settle, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		// A timer that fires while it is replaced comes too late.
		if a.pending != timer {
			return
		}
		a.pending = nil
		a.said[line] = true
		a.say(terminal.Yellow, string(phase), message)
	})
	a.pending = timer
}

// show keeps a line of progress with the phase and its reason.
func (a *announcer) show(same bool) {
	if !same {
		a.hide()
	}
	if a.progress == nil {
		a.progress = terminal.NewProgress(a.out, string(a.phase), terminal.Things)
	}
	a.progress.Say(a.message)
}

// hide takes what is shown of the last phase off the screen, and what is
// about to be shown.
func (a *announcer) hide() {
	if a.pending != nil {
		a.pending.Stop()
		a.pending = nil
	}
	if a.progress != nil {
		a.progress.Stop()
		a.progress = nil
	}
}

// lost tells that the server is away.
func (a *announcer) lost(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.hide()
	why := err.Error()
	if network, ok := errors.AsType[*net.OpError](err); ok && network.Op == "dial" && network.Addr != nil {
		why = "nobody answers at " + network.Addr.String() + ": `muster up --detach` starts Muster again"
	}
	a.say(terminal.Yellow, "Lost contact", fmt.Sprintf("trying again; the job goes on meanwhile (%s)", why))
}

// quiet takes any progress off the screen. It may be called more than once.
func (a *announcer) quiet() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.hide()
}
