// Package turns shares out what few can have at once: a [Lane] serves so many requests at
// a time, those of parties that have the fewest first, and takes a [Turn] back from who
// uses it badly while others wait.
//
// What the other side of a request sends and takes passes through [Turn.Move], which knows
// by that how fast it is, and breaks the wait off for who has to make room.
package turns
