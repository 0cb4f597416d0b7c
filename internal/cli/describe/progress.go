package describe

import (
	"context"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/device"
	"github.com/muster-dev/muster/internal/cli/explanation"
	"github.com/muster-dev/muster/internal/cli/member"
	"github.com/muster-dev/muster/internal/cli/terminal"
	"github.com/muster-dev/muster/internal/scheduling"
	"github.com/muster-dev/muster/internal/snapshot"
)

// ends says when a job that runs is expected to end: a range, and what that
// rests on; "" where nothing is known. What cannot be found out is left out:
// the rest of the page is still worth showing.
func ends(ctx context.Context, reader client.Reader, job *v1alpha1.TrainingJob) string {
	if job.Status.Phase != v1alpha1.JobRunning {
		return ""
	}
	x, err := explanation.Of(ctx, reader, scheduling.Key{Namespace: job.Namespace, Name: job.Name}, false)
	if err != nil || x.Ends == nil {
		return ""
	}
	return x.Ends.Render(snapshot.Clock(time.Now(), time.Local))
}

// progress is how far the job is: a bar, the part, and whose word it is.
func (p *page) progress() string {
	r := p.job.Status.Progress
	if r == nil {
		return p.unread()
	}
	text := bar(r.DoneMillionths) + " " + r.Percent
	if r.ObservedTime != nil && p.job.Status.Phase != v1alpha1.JobSucceeded {
		text += ", reported " + terminal.WholeSpan(max(0, p.now.Sub(r.ObservedTime.Time))) + " ago"
		switch {
		case r.Member == "least":
			text += ", the least of its members"
		case len(p.pods) > 1:
			text += " by " + r.Member
		}
	}
	return text
}

// unread says that nobody reads what the job reports, where that is so.
func (p *page) unread() string {
	for i := range p.pods {
		if p.pods[i].Annotations[v1alpha1.AnnotationReports] == v1alpha1.ReportsUnread {
			return "what it reports is not read: the cluster has no agents of Muster (muster install --set agent.create=true)"
		}
	}
	return ""
}

// bar draws a part of the whole.
func bar(millionths int64) string {
	const width = 20
	full := int(max(0, min(v1alpha1.Whole, millionths)) * width / v1alpha1.Whole)
	return "[" + strings.Repeat("#", full) + strings.Repeat(".", width-full) + "]"
}

// saved is when the work was last saved.
func (p *page) saved() string {
	at := p.job.Status.SavedTime
	if at == nil {
		return ""
	}
	return at.Local().Format("2006-01-02 15:04:05") + " (" + terminal.WholeSpan(max(0, p.now.Sub(at.Time))) + " ago)"
}

// misunderstood is what is wrong with what members report, one member's words.
func (p *page) misunderstood() string {
	for i := range p.pods {
		if r, ok := device.Progress(&p.pods[i]); ok && r.Problem != "" {
			m, _ := member.OfPod(&p.pods[i])
			return "of " + m.String() + ": " + r.Problem
		}
	}
	return ""
}
