package main

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

func ratio(a, b time.Duration) float64 { return a.Seconds() / b.Seconds() }

// middle is the trial whose time is the median.
func middle(all []spent) spent {
	sorted := slices.SortedFunc(slices.Values(all), func(a, b spent) int { return cmp.Compare(a.wall, b.wall) })
	return sorted[len(sorted)/2]
}

// spread says from where to where the trials were.
func spread(all []spent) string {
	least, most := all[0].wall, all[0].wall
	for _, one := range all {
		least, most = min(least, one.wall), max(most, one.wall)
	}
	return fmt.Sprintf("median of %d, %s to %s, %s of CPU time", len(all), seconds(least), seconds(most), seconds(leastCPU(all)))
}

// leastCPU is the least CPU time of the trials: what other work adds to it, by
// emptying caches, is no part of the figure.
func leastCPU(all []spent) time.Duration {
	out := all[0].cpu
	for _, one := range all {
		out = min(out, one.cpu)
	}
	return out
}
