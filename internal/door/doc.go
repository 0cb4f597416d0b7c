// Package door owns the HTTP server inside the manager: code on its way to
// nodes, and answers that need a look at the whole cluster.
//
// Vocabulary:
//
//   - A caller is who asks: somebody who speaks for a namespace, or the agent of
//     a node. Which it is, a token for the door's own audience proves, and
//     nothing else does: the API server takes a user's credentials off what it
//     proxies.
//   - The reception reviews tokens. Nothing is answered before that. Behind the
//     socket of a machine, package receiver takes its place.
//   - A lane is how many requests of a kind are served at once; the others wait
//     a moment and are then told to come again. A turn is a place in it. Who is
//     slow, or has more than its part, loses its turn while others wait.
//
// Package shelf keeps bytes, depot knows snapshots, visitor is the asking side.
// What is agreed with those who ask is docs/design/open/004-door.md.
//
// It must not know any command, nor how jobs run: answers are given by others.
package door
