// Package departure knows by which signs on a Node one can tell that it is about
// to go: a person's order to drain it, an autoscaler that removes it, a cloud
// that reclaims it. It is a pure rule over the Node object.
//
// Vocabulary: a sign is a taint or a condition; a departure is what signs come
// to: why the node goes, and how long there is. A cordon alone is no sign:
// nothing new comes to a cordoned node, and what runs there goes on.
//
// It must not know gangs, pods, or what is done about a departure.
package departure
