package run

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/exit"
)

// workers is the value of --workers: a number, or a range such as 1..8.
type workers struct {
	least, most int
	ranged      bool
}

// Set reads the value.
func (w *workers) Set(text string) error {
	low, high, ranged := strings.Cut(text, "..")
	if !ranged {
		high = low
	}
	least, errLow := strconv.Atoi(low)
	most, errHigh := strconv.Atoi(high)
	if errLow != nil || errHigh != nil {
		return fmt.Errorf("give a whole number such as 8, or a range such as 1..8")
	}
	*w = workers{least: least, most: most, ranged: ranged && least != most}
	return nil
}

// String is the value as it is written.
func (w *workers) String() string {
	if w.ranged {
		return fmt.Sprintf("%d..%d", w.least, w.most)
	}
	return strconv.Itoa(w.most)
}

// Type names the value in the help.
func (w *workers) Type() string { return "N|MIN..MAX" }

// checkRange refuses ranges that make no sense, or where members cannot come
// and go.
func (f *Flags) checkRange() error {
	if f.MinWorkers == nil {
		return nil
	}
	given := fmt.Sprintf("--workers %d..%d", *f.MinWorkers, *f.Workers)
	switch {
	case *f.MinWorkers < 1 || *f.MinWorkers > *f.Workers:
		return exit.Usage("%s: give a range from 1 up to the largest number, such as 1..8", given)
	case f.Framework == "" && (f.PS != nil && *f.PS > 0 || f.Chief || f.Evaluator):
		return exit.Usage("%s with roles of TensorFlow: its members are told of one another when they start, and cannot come and go; give a number, or --framework None", given)
	case f.Framework == "":
		return nil
	}
	framework, err := parseFramework(f.Framework)
	if err == nil && framework != v1alpha1.FrameworkNone {
		return exit.Usage("%s with --framework %s: its members are told of one another when they start, and cannot come and go; give a number, or --framework None", given, framework)
	}
	return err
}

// stretch makes the workers elastic if a range was given.
func (f *Flags) stretch(roles []v1alpha1.Role) {
	if f.MinWorkers == nil {
		return
	}
	least := int32(*f.MinWorkers)
	for i := range roles {
		if roles[i].Name == "worker" {
			roles[i].MinReplicas = &least
		}
	}
}
