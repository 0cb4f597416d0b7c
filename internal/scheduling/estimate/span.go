package estimate

// Span is a length of time, in nanoseconds.
type Span int64

// Units of time.
const (
	Microsecond Span = 1000
	Second           = 1_000_000 * Microsecond
	Minute           = 60 * Second
	Hour             = 60 * Minute
)
