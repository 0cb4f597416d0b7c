// Package terminal owns how muster looks: whether a stream is a terminal,
// colour, aligned tables, and progress on anything longer than a second.
//
// Streams are the three standard streams and what is known of them. Style
// colours text, and does nothing where colour is unwanted: not a terminal,
// NO_COLOR set, TERM=dumb. Progress is a bar on a terminal and a plain line
// every few seconds elsewhere.
//
// Guard keeps terminals from obeying sequences that other users wrote into names and
// messages. All text for people goes through it. Data and Bare return the stream for all else.
//
// It must not know Kubernetes, jobs, or any command.
package terminal
