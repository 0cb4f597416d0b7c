// Package probe asks a container, again and again, whether it is well.
//
// It owns the three ways of asking (a command, an HTTP request, a TCP
// connection), the thresholds that turn single answers into a verdict, and the
// small HTTP client that lifecycle hooks use too. What a verdict means is for
// the caller: this package knows neither restarts nor readiness.
package probe
