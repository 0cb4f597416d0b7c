package simulate

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// Limits is what the replay says that owners had declared about run times.
type Limits string

// The kinds of limits.
const (
	// NoLimits: nobody declared anything.
	NoLimits Limits = "none"
	// ExactLimits: the true run time, which nobody knows in truth.
	ExactLimits Limits = "exact"
	// CoarseLimits: the true run time rounded up to 1 h, 4 h, 16 h, 64 h, ...
	CoarseLimits Limits = "coarse"
	// WrongLimits: the coarse limit divided or multiplied by five, at random.
	WrongLimits Limits = "coarse-x5"
)

// AllLimits lists the kinds.
func AllLimits() []Limits { return []Limits{NoLimits, ExactLimits, CoarseLimits, WrongLimits} }

// Meaning says in a sentence what such limits are. Whoever shows a result must
// show it too.
func (l Limits) Meaning() string {
	switch l {
	case NoLimits:
		return "no run time was declared"
	case ExactLimits:
		return "declared run times are the true run times of the trace"
	case CoarseLimits:
		return "declared run times are the true run times of the trace, rounded up to 1 h, 4 h, 16 h, 64 h and so on"
	case WrongLimits:
		return "declared run times are the true run times of the trace, rounded up to 1 h, 4 h, 16 h, 64 h and so on, then divided or multiplied by 5 at random"
	}
	return ""
}

// Random reports whether the limits depend on the seed.
func (l Limits) Random() bool { return l == WrongLimits }

// Coarse rounds a run time up to 1 h, 4 h, 16 h, 64 h and so on.
func Coarse(run Micros) Micros {
	limit := Hour
	for limit < run {
		if limit > Never/4 {
			return Never - 1
		}
		limit *= 4
	}
	return limit
}

// Declare sets every job's Limit.
func Declare(jobs []Job, limits Limits, seed uint64) error {
	random := rand.New(rand.NewPCG(seed, 0x6c696d697473))
	for i := range jobs {
		job := &jobs[i]
		switch limits {
		case NoLimits:
			job.Limit = 0
		case ExactLimits:
			// A limit of 0 would say that there is none.
			job.Limit = max(job.Run, 1)
		case CoarseLimits:
			job.Limit = Coarse(job.Run)
		case WrongLimits:
			job.Limit = Coarse(job.Run)
			if random.Uint64()&1 == 0 {
				job.Limit /= 5
			} else if job.Limit < Never/5 {
				job.Limit *= 5
			}
		default:
			var names []string
			for _, one := range AllLimits() {
				names = append(names, string(one))
			}
			return fmt.Errorf("limits %q: there are no such limits; allowed are %s", string(limits), strings.Join(names, ", "))
		}
	}
	return nil
}
