// Package metrics is what Prometheus reads of Muster.
//
// Vocabulary: a recorder is told what happens while it happens (it is the
// loop's observer, and sees every write to the API on its way); the holdings are
// counted from the cache when they are asked for: who waits and why, who holds
// which GPUs and whether they are used. A class is a size of gangs: "0", "1",
// "2-7", "8-63" and "64+" GPUs.
//
// Names follow https://prometheus.io/docs/practices/naming/: base units,
// _total for what only grows. Nothing carries the name of a job or of a user:
// the number of series is bounded by queues, reasons and classes.
//
// The package decides nothing, and nothing waits for it.
package metrics
