package foreman

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/muster-dev/muster/internal/foreman/shift"
)

// memberNames are role/index; roles are names of Kubernetes.
var memberNames = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?/(0|[1-9][0-9]{0,8})$`)

// person is who asks: a pod, and the member that it is.
type person struct {
	Member string `json:"member"`
	Pod    string `json:"pod"`
	// Born is the second in which it was made.
	Born int64 `json:"born"`
	// Job tells the jobs of one work apart.
	Job string `json:"job,omitempty"`
	// Attempt is that of the job, of which all members begin anew; 0: not known.
	Attempt int64 `json:"attempt,omitempty"`
}

// folder is the name of a member's folder: the last dash is before its index.
func (p *person) folder() string { return strings.Replace(p.Member, "/", "-", 1) }

// older says that another pod has taken this one's place. Of two that were made in
// one second the one that came later has.
func (p *person) older(than *person) bool { return p.Pod != than.Pod && p.Born < than.Born }

// personOf reads what the door says of who asks.
func personOf(in *http.Request) (p person, err error) {
	p.Member, p.Pod = in.Header.Get(shift.MemberHeader), in.Header.Get(shift.PodHeader)
	p.Job = in.Header.Get(shift.JobHeader)
	p.Attempt, _ = strconv.ParseInt(in.Header.Get(shift.AttemptHeader), 10, 64) // or it is not known
	if p.Born, err = strconv.ParseInt(in.Header.Get(shift.BornHeader), 10, 64); err != nil || p.Pod == "" || !memberNames.MatchString(p.Member) {
		return p, fmt.Errorf("who asks is %q, pod %q: a member of a job is expected, whom the door has introduced", p.Member, p.Pod)
	}
	return p, nil
}

var (
	errFollowed = errors.New("another pod has taken this member's place")
	errFormer   = errors.New("this pod is of another job than the one that computes the stage now")
	errEnded    = errors.New("this work is over")
	// errTorn is why a pod of a member that leads or follows does not begin where another
	// one has in the same attempt of the job: the others rely on what that wrote.
	errTorn = errors.New("another pod of this member has begun before it, and what that wrote is lost: all members have to begin anew")
)

// unwanted says that who asks is not heard any more, which is nobody's problem.
func unwanted(err error) bool {
	return errors.Is(err, errFollowed) || errors.Is(err, errFormer) || errors.Is(err, errEnded)
}

func statusOf(err error) int {
	switch {
	case unwanted(err):
		return shift.StatusGone
	case errors.Is(err, errTorn):
		return shift.StatusRefused
	}
	return http.StatusServiceUnavailable
}

// welcome says why a pod is not heard any more, if it is not.
func (w *Work) welcome(who *person) error {
	select {
	case <-w.ended:
		return errEnded
	default:
	}
	if !w.counts(who) {
		return errFormer
	}
	return nil
}

// For says which job computes the work now, by what the door says of its pods: those of
// another one count no more, and those that wait hear of it. Empty: those of any do.
func (w *Work) For(job string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.job != job {
		w.job = job
		w.changed()
	}
}

// counts says that a pod is one of the job that computes the work now.
func (w *Work) counts(who *person) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.heeds(who)
}

// heeds says the same; the caller holds the lock.
func (w *Work) heeds(who *person) bool { return w.job == "" || who.Job == w.job }
