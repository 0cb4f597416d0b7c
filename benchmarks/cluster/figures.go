package main

import (
	"fmt"
	"slices"
	"time"
)

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

func ratio(a, b time.Duration) float64 { return a.Seconds() / b.Seconds() }

// middle is the median.
func middle(all []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[len(sorted)/2]
}

// spread says from where to where the trials were.
func spread(all []time.Duration) string {
	return fmt.Sprintf("median of %d, %s to %s", len(all), seconds(slices.Min(all)), seconds(slices.Max(all)))
}
