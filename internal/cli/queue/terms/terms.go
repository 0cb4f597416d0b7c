// Package terms owns the flags by which a queue's terms are given, and reads
// them into a QueueSpec.
//
// It must not know any command.
package terms

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/queue/survey"
	"github.com/muster-dev/muster/internal/cli/suggestion"
	"github.com/muster-dev/muster/internal/scheduling/queue"
	"github.com/muster-dev/muster/internal/scheduling/queue/manifest"
)

// Flags are a queue's terms as flags.
type Flags struct {
	parent, reclaim              string
	guaranteed, limit, lending   []string
	weight                       int32
	borrowing, fairness, stopped bool
	minRun                       time.Duration
}

// names are the flags, so that a command can tell whether any was given.
var names = []string{"parent", "guaranteed", "limit", "lending-limit", "weight", "borrowing", "reclaim", "min-run-time", "user-fairness", "stopped"}

// largest is the most that a flag may give of a class; what counts ends a
// little above it.
func largest(class string) int64 {
	if class == queue.NameMemory {
		return 1_000_000_000_000_000_000
	}
	return 1_000_000_000_000_000
}

// reclaims are the words for reclaim policies.
var reclaims = map[string]v1alpha1.ReclaimPolicy{"any": v1alpha1.ReclaimAny, "lower-priority": v1alpha1.ReclaimLowerPriority, "never": v1alpha1.ReclaimNever}

// Add adds the flags to a command.
func Add(cmd *cobra.Command, f *connection.Factory) *Flags {
	t := &Flags{}
	flags := cmd.Flags()
	flags.StringVar(&t.parent, "parent", "", "queue above (none: a child of the root)")
	flags.StringArrayVar(&t.guaranteed, "guaranteed", nil, "what it can have whenever it wants: gpu=8,cpu=64,memory=512Gi,A100=4")
	flags.StringArrayVar(&t.limit, "limit", nil, "the most it may use, with all queues below: gpu=16")
	flags.StringArrayVar(&t.lending, "lending-limit", nil, "the most of its guarantee that others may borrow (default: all)")
	flags.Int32Var(&t.weight, "weight", 1, "its part, among its siblings, of what nobody is guaranteed: 1 to 1000")
	flags.BoolVar(&t.borrowing, "borrowing", true, "it may use more than it is guaranteed, while others leave it idle")
	flags.StringVar(&t.reclaim, "reclaim", "", "from which borrowers it takes its guarantee back: any, lower-priority, never (default: as the queue above)")
	flags.DurationVar(&t.minRun, "min-run-time", 0, "how long its jobs run at least before they are stopped for another queue: 30m (default: as the queue above)")
	flags.BoolVar(&t.fairness, "user-fairness", true, "its users take turns by what each holds and held lately")
	flags.BoolVar(&t.stopped, "stopped", false, "nothing new starts in it and below")
	_ = cmd.RegisterFlagCompletionFunc("parent", func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return survey.Complete(cmd.Context(), f, nil), cobra.ShellCompDirectiveNoFileComp
	})
	_ = cmd.RegisterFlagCompletionFunc("reclaim", cobra.FixedCompletions([]string{"any", "lower-priority", "never"}, cobra.ShellCompDirectiveNoFileComp))
	for _, name := range []string{"guaranteed", "limit", "lending-limit"} {
		_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions([]string{"gpu=", "cpu=", "memory="}, cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveNoSpace))
	}
	return t
}

// Given reports whether any of the flags was given.
func Given(cmd *cobra.Command) bool {
	for _, name := range names {
		if cmd.Flags().Changed(name) {
			return true
		}
	}
	return false
}

// Read changes a spec as the flags say that were given; others leave it as it
// is. Of amounts, the classes that are named change; "gpu=none" takes one out,
// "none" all of them.
func (t *Flags) Read(cmd *cobra.Command, spec *v1alpha1.QueueSpec) error {
	given := cmd.Flags().Changed
	var errs []error
	for _, one := range []struct {
		flag  string
		words []string
		into  *v1alpha1.ResourceAmounts
	}{{"guaranteed", t.guaranteed, &spec.Guaranteed}, {"limit", t.limit, &spec.Limit}, {"lending-limit", t.lending, &spec.LendingLimit}} {
		errs = append(errs, amounts("--"+one.flag, one.words, one.into))
	}
	if given("parent") {
		spec.Parent = strings.TrimPrefix(t.parent, "none")
	}
	if given("weight") {
		if t.weight < 1 || t.weight > 1000 {
			errs = append(errs, exit.Usage("--weight %d: give a whole number from 1 to 1000", t.weight))
		}
		spec.Weight = &t.weight
	}
	if given("borrowing") {
		spec.Borrowing = v1alpha1.BorrowingAllowed
		if !t.borrowing {
			spec.Borrowing = v1alpha1.BorrowingNever
		}
	}
	if given("user-fairness") {
		spec.UserFairness = &t.fairness
	}
	if given("stopped") {
		spec.Stopped = t.stopped
	}
	errs = append(errs, t.preemption(given, spec))
	return errors.Join(errs...)
}

func (t *Flags) preemption(given func(string) bool, spec *v1alpha1.QueueSpec) error {
	if !given("reclaim") && !given("min-run-time") {
		return nil
	}
	if spec.Preemption == nil {
		spec.Preemption = &v1alpha1.QueuePreemption{}
	}
	if given("reclaim") {
		policy, ok := reclaims[strings.ToLower(t.reclaim)]
		if !ok {
			return exit.Usage("--reclaim %s: there is no such policy%s; allowed are any, lower-priority, never", t.reclaim,
				suggestion.Phrase(t.reclaim, []string{"any", "lower-priority", "never"}))
		}
		spec.Preemption.Reclaim = policy
	}
	if given("min-run-time") {
		seconds := int64(t.minRun / time.Second)
		if t.minRun < 0 || t.minRun%time.Second != 0 || t.minRun > 365*24*time.Hour {
			return exit.Usage("--min-run-time %s: give whole seconds, at most a year, such as 90s, 30m or 2h", t.minRun)
		}
		spec.Preemption.MinRunSeconds = &seconds
	}
	return nil
}

// misnamed are words that people write for the classes.
var misnamed = map[string]string{
	"gpus": queue.NameGPU, "nvidia.com/gpu": queue.NameGPU, "cpus": queue.NameCPU, "core": queue.NameCPU, "cores": queue.NameCPU,
	"mem": queue.NameMemory, "ram": queue.NameMemory,
}

// amounts reads "gpu=8,cpu=64" into a map.
func amounts(flag string, words []string, into *v1alpha1.ResourceAmounts) error {
	for word := range strings.SplitSeq(strings.Join(words, ","), ",") {
		word = strings.TrimSpace(word)
		switch word {
		case "":
			continue
		case "none":
			*into = nil
			continue
		}
		class, text, found := strings.Cut(word, "=")
		if !found || class == "" {
			return exit.Usage("%s %s: give a class and an amount, such as gpu=8 or cpu=64,memory=512Gi,A100=4", flag, word)
		}
		lower := strings.ToLower(class)
		meant, wrong := misnamed[lower]
		if near := suggestion.Nearest(lower, []string{queue.NameMemory}); !wrong && len(lower) > 4 && near != "" && near != lower {
			meant, wrong = near, true
		}
		if wrong {
			return exit.Usage("%s %s: there is no class %s; did you mean %s=%s? Classes are cpu, memory, gpu, and GPU models such as A100", flag, word, class, meant, text)
		}
		if lower == queue.NameCPU || lower == queue.NameMemory || lower == queue.NameGPU {
			class = lower
		}
		for have := range *into {
			if strings.EqualFold(have, class) {
				class = have
			}
		}
		if text == "none" {
			delete(*into, class)
			continue
		}
		quantity, err := resource.ParseQuantity(text)
		switch {
		case err != nil:
			return exit.Usage("%s %s: %q is no amount; give one such as 8, 500m or 512Gi", flag, word, text)
		case quantity.Sign() < 0:
			return exit.Usage("%s %s: an amount cannot be negative; give 0 or more", flag, word)
		case quantity.CmpInt64(largest(class)) > 0:
			return exit.Usage("%s %s: the amount is too large; give at most %d", flag, word, largest(class))
		}
		if *into == nil {
			*into = v1alpha1.ResourceAmounts{}
		}
		(*into)[class] = quantity
	}
	return nil
}

// Check refuses a queue that would make anything wrong among those that there
// are, and returns what is only worth a warning.
func Check(s *survey.Survey, object *v1alpha1.Queue) (warnings []string, err error) {
	var specs []queue.Spec
	for i := range s.Objects {
		if s.Objects[i].Name != object.Name {
			specs = append(specs, manifest.Spec(&s.Objects[i]))
		}
	}
	// A problem that was there before is not this change's.
	known := map[queue.Problem]bool{}
	for _, p := range s.Problems {
		p.Words = ""
		known[p] = true
	}
	tree, problems := queue.Build(append(specs, manifest.Spec(object)), queue.Options{Models: s.Models})
	var errs []error
	for _, p := range problems {
		alike := p
		alike.Words = ""
		switch {
		case known[alike]:
		case p.Fault == queue.FaultMissingParent && p.Queue == object.Name:
			errs = append(errs, exit.NotFound("parent: there is no queue %s%s", object.Spec.Parent, suggestion.Phrase(object.Spec.Parent, s.Names())))
		default:
			errs = append(errs, exit.With(exit.Failure, errors.New(p.String())))
		}
	}
	for _, list := range []v1alpha1.ResourceAmounts{object.Spec.Guaranteed, object.Spec.Limit} {
		for class := range list {
			if c, ok := s.Tree.Classes().Find(class); ok && c <= queue.GPU || len(s.Models) == 0 || hasModel(s.Models, class) {
				continue
			}
			warnings = append(warnings, fmt.Sprintf("no node has a GPU of model %s (there are %s)%s", class, strings.Join(s.Models, ", "), suggestion.Phrase(class, s.Models)))
		}
	}
	if over := s.Overcommitted(tree, object.Spec.Guaranteed); len(over) > 0 && len(errs) == 0 {
		warnings = append(warnings, "the queues are guaranteed more than the nodes have, by "+strings.Join(over, ", ")+": not all of them can have their guarantee at the same time")
	}
	return warnings, errors.Join(errs...)
}

func hasModel(models []string, class string) bool {
	for _, model := range models {
		if strings.EqualFold(model, class) {
			return true
		}
	}
	return false
}
