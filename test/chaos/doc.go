// Package chaos kills what a cluster is made of while gangs come and go, and
// looks from outside at what becomes of them: at pods and Placements in the
// API, at processes in /proc, and at what the members themselves wrote. What
// Muster counts plays no part.
//
// Vocabulary: a victim is what is killed; a look is one reading of everything
// that can be seen; a gang is partial while some of its members run and others
// never did; a device is granted twice if processes of two pods were told to
// use it.
//
// $MUSTER_CHAOS_GANGS says how many gangs come and go, $MUSTER_CHAOS_SEED
// repeats the choices of an earlier run. It wants root, as test/cluster does.
package chaos
