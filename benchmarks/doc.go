// Package benchmarks measures what the README claims, against the built
// bin/muster, and prints one table: every figure a median of at least five,
// beside its target or its comparison in the same run. `make bench`.
package benchmarks
