// Package calibration learns how forecasts came true: it counts the ratios of true to
// foreseen waits, and says by them how wide a range has to be.
//
// Vocabulary: a [Category] is what waits alike, by size, by length and by how many are
// ahead; a [Table] has the counts of all, and of each category; its drift follows
// misses and hits.
//
// The package knows no request and no clock: package scheduling remembers what was
// foreseen, and when.
package calibration
