// Command scheduler measures what is claimed of the scheduler and prints one
// table: every figure beside its target or what it is compared with, and
// whether it is met. `make bench-scheduler`.
//
// The traces are read from the folder named by MUSTER_TRACES, by default
// ../shared/traces; where they are missing, the rows that need them are left
// out and a made-up workload stands in.
package main
