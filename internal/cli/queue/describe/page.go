package describe

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/queue/survey"
	"github.com/muster-dev/muster/internal/cli/terminal"
	"github.com/muster-dev/muster/internal/scheduling/queue"
	"github.com/muster-dev/muster/internal/scheduling/queue/manifest"
)

// page is what is shown of one queue.
type page struct {
	now   *survey.Survey
	queue queue.Queue
	name  string
	// logins are those of the users of queues.
	logins Logins
}

// write prints the page.
func (p *page) write(out io.Writer, style terminal.Style) error {
	var text strings.Builder
	state, colour := p.state()
	fmt.Fprintf(&text, "%s  %s\n", style.Paint(terminal.Bold, p.logins.title(p.name)), style.Paint(colour, state))
	for _, problem := range p.now.Of(p.name) {
		fmt.Fprintf(&text, "  %s: %s\n", style.Paint(terminal.Red, problem.Field), problem.Words)
	}
	text.WriteString("\n")
	for i, table := range []*terminal.Table{p.facts(), p.classes(), p.loans(), p.users(), p.jobs()} {
		if table.Len() == 0 {
			continue
		}
		if i > 0 {
			text.WriteString("\n")
		}
		if err := table.Write(&text, style, ""); err != nil {
			return err
		}
	}
	_, err := io.WriteString(out, text.String())
	return err
}

func (p *page) state() (string, terminal.Colour) {
	object := p.now.Object(p.name)
	switch {
	case p.now.Tree.Gone(p.queue):
		return "not there, though jobs name it: create it, or move them (muster queue move JOB --to QUEUE)", terminal.Red
	case len(p.now.Of(p.name)) > 0:
		return "invalid", terminal.Red
	case object == nil:
		return "implied: no object, no terms; it may use what no other queue is guaranteed", terminal.Dim
	case object.Spec.Stopped:
		return "stopped: nothing new starts", terminal.Yellow
	}
	return "open", terminal.Green
}

// shown is the name of a queue in the page.
func (p *page) shown(q queue.Queue) string { return p.logins.Show(p.now.Tree.Name(q)) }

// facts are the queue's single values.
func (p *page) facts() *terminal.Table {
	table := terminal.NewTable()
	tree := p.now.Tree
	parent := p.shown(tree.Parent(p.queue))
	if parent == "" {
		parent = "none, a child of the root"
	}
	table.Row("Parent", parent)
	if children := tree.Children(p.queue, nil); len(children) > 0 {
		names := make([]string, len(children))
		for i, child := range children {
			names[i] = p.shown(child)
		}
		table.Row("Children", strings.Join(names, ", "))
	}
	running, waiting := p.now.Count(p.queue)
	jobs := fmt.Sprintf("%d running, %d waiting", running, waiting)
	if len(tree.Children(p.queue, nil)) > 0 {
		jobs += ", those of the queues below included"
	}
	table.Row("Jobs", jobs)
	table.Row("Share", fmt.Sprintf("%.1f%% of the cluster above its guarantee, by weight", 100*tree.Share(p.queue)))
	if object := p.now.Object(p.name); object != nil {
		terms(table, manifest.Spec(object), object.Spec.Preemption, tree.ReclaimsFrom(p.queue))
	}
	if least := tree.MinRunTime(p.queue); least > 0 {
		table.Row("Min run time", terminal.Span(time.Duration(least)))
	}
	return table
}

func terms(table *terminal.Table, spec queue.Spec, own *v1alpha1.QueuePreemption, reclaim queue.Reclaim) {
	yes := func(yes bool, is, isNot string) string {
		if yes {
			return is
		}
		return isNot
	}
	table.Row("Weight", strconv.FormatInt(spec.Weight, 10))
	table.Row("Borrowing", yes(spec.NoBorrowing, "never", "allowed"))
	words := map[queue.Reclaim]string{queue.ReclaimAny: "from any borrower", queue.ReclaimLowerPriority: "from borrowers of lower priority", queue.ReclaimNever: "never"}[reclaim]
	table.Row("Reclaim", words+yes(own == nil || own.Reclaim == "", " (as the queue above)", ""))
	table.Row("User fairness", yes(spec.NoUserFairness, "off: by priority and age", "on"))
}

// classes is a row for every class that plays a part.
func (p *page) classes() *terminal.Table {
	table, tree := terminal.NewTable("CLASS", "GUARANTEED", "USED", "BORROWED", "LIMIT", "CAN TAKE"), p.now.Tree
	for k := range tree.Classes().Len() {
		c := queue.Class((k + int(queue.GPU)) % tree.Classes().Len())
		write := func(amount int64) string { return tree.Classes().Format(c, amount) }
		limit, limited := tree.Limit(p.queue, c)
		text := "-"
		if limited {
			text = write(limit)
		}
		room := "any amount"
		if free := p.room(c); free < math.MaxInt64 {
			room = write(free) + " more"
		}
		if tree.Gone(p.queue) {
			room = "nothing"
		}
		table.Row(tree.Classes().Name(c), write(tree.Guaranteed(p.queue, c)), write(tree.Used(p.queue, c)), write(tree.Borrowed(p.queue, c)), text, room)
	}
	return table
}

// room is how much more of a class the queue could take; MaxInt64 if nothing
// limits it. A GPU of a model counts as a GPU as well.
func (p *page) room(c queue.Class) int64 {
	switch free := p.now.Tree.Room(p.queue, c); {
	case p.now.Tree.Gone(p.queue):
		return 0
	case c > queue.GPU:
		return min(free, p.now.Tree.Room(p.queue, queue.GPU))
	default:
		return free
	}
}

// loans are what the queue may borrow from whom, and who borrows.
func (p *page) loans() *terminal.Table {
	table, tree := terminal.NewTable("CLASS", "AMOUNT", "BORROWING"), p.now.Tree
	object := p.now.Object(p.name)
	may := !tree.Gone(p.queue) && (object == nil || object.Spec.Borrowing != v1alpha1.BorrowingNever)
	for k := range tree.Classes().Len() {
		c := queue.Class((k + int(queue.GPU)) % tree.Classes().Len())
		if !p.matters(c) {
			continue
		}
		name := tree.Classes().Name(c)
		for _, loan := range tree.Lenders(p.queue, c, nil) {
			if !may || tree.Room(p.queue, c) == 0 {
				break
			}
			from := "may borrow from " + p.shown(loan.From) + ", which leaves it idle"
			if loan.From == queue.Root {
				from = "may borrow: guaranteed to no queue and idle"
			}
			table.Row(name, tree.Classes().Format(c, loan.Amount), from)
		}
		for _, source := range tree.Borrowers(p.queue, c, nil) {
			table.Row(name, tree.Classes().Format(c, source.Amount), "borrowed by "+p.shown(source.Queue))
		}
	}
	return table
}

// matters reports whether loans of a class are worth a line: GPUs in all, and
// what some queue is guaranteed.
func (p *page) matters(c queue.Class) bool {
	if c == queue.GPU {
		return true
	}
	for _, name := range p.now.Names() {
		if q, ok := p.now.Tree.Find(name); ok && p.now.Tree.Guaranteed(q, c) > 0 {
			return true
		}
	}
	return false
}

// counts are the users of the queue itself, in the order of their jobs, and how
// many jobs of each run and wait.
func (p *page) counts() ([]string, map[string]*[2]int) {
	counts := map[string]*[2]int{}
	var order []string
	for i := range p.now.Work {
		work := &p.now.Work[i]
		if work.Queue != p.name {
			continue
		}
		if counts[work.User] == nil {
			counts[work.User] = &[2]int{}
			order = append(order, work.User)
		}
		at := 1
		if work.Holds {
			at = 0
		}
		counts[work.User][at]++
	}
	return order, counts
}

// users is who holds what in the queue itself.
func (p *page) users() *terminal.Table {
	table, tree := terminal.NewTable("USER", "HOLDS", "RUNNING", "WAITING"), p.now.Tree
	order, counts := p.counts()
	for _, user := range order {
		u := tree.User(user)
		held := survey.Amounts(tree.Classes(), func(c queue.Class) int64 { return tree.Held(p.queue, u, c) }, nil)
		shown := user
		if shown == "" {
			shown = "(unknown)"
		}
		table.Row(shown, held, strconv.Itoa(counts[user][0]), strconv.Itoa(counts[user][1]))
	}
	return table
}

// maxJobs is how many jobs are listed.
const maxJobs = 20

// jobs are the queue's own.
func (p *page) jobs() *terminal.Table {
	table := terminal.NewTable("JOB", "USER", "STATE", "AMOUNT")
	more := 0
	for i := range p.now.Work {
		work := &p.now.Work[i]
		if work.Queue != p.name {
			continue
		}
		if table.Len() == maxJobs {
			more++
			continue
		}
		state, colour := "waits", terminal.Yellow
		if work.Holds {
			state, colour = "runs", terminal.Green
		}
		table.Row(work.Name, work.User, state, survey.Amounts(p.now.Tree.Classes(), func(c queue.Class) int64 { return work.Ask[c] }, nil))
		table.Paint(2, colour)
	}
	if more > 0 {
		table.Row(fmt.Sprintf("and %d more", more))
	}
	return table
}
