// Package calibration learns the accuracy of forecasts. It counts the ratios of actual
// to forecast waits, and derives the width of a forecast's range from the counts.
//
// Vocabulary:
//
//   - A [Category] is a class of requests by size, by length, and by the number of
//     entries ahead.
//   - A [Table] has the counts over all requests and for each category.
//   - The drift of a table widens ranges after misses and narrows them after hits.
//
// The package must not know requests or clocks. Package scheduling keeps the forecasts
// and their times.
package calibration
