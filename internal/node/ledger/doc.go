// Package ledger says which pod holds which GPUs and ports of this machine.
//
// A [Ledger] gives a pod what it names only if nobody else holds it. What a pod holds is
// counted until the ledger is told that it was released.
//
// It must not know who decides what pods are given, nor whether processes run.
package ledger
