// Package cache owns a folder of a machine in which parts of commits lie that work
// on this machine reads: each is fetched once, whoever reads it and however often.
//
// Vocabulary:
//
//   - An entry is what a path means in a tree (see [data.View.Part]), as a folder.
//     Its key is a hash of both: commits of equal trees share it.
//   - A scope is one of several who must not learn from one another what they have:
//     entries are fetched for each anew. Without one they are for everybody.
//   - An entry is whole once its note says so, which is written last. One that is
//     not, because its fetch was broken off, is gone on with: what is there is
//     checked against its hash and kept.
//   - Entries are not synced to disk. So the note bears the boot of the machine;
//     after another one the entry counts as broken off.
//   - An entry is held by who was given its folder, until the release. It is in use
//     if somebody outside of this process names it, as [Options.InUse] tells; both
//     are never removed.
//   - An entry of a commit shortly before lends the files that have not changed, as
//     hard links.
//   - Where there is no room, what was used longest ago goes first.
//
// Files lack the right to be written, which keeps nobody from it who owns the
// machine: so an entry is looked at before it is given out, and if anything in it
// was written since, it is checked as one that was broken off.
//
// One process uses a folder at a time. The package must not know Kubernetes, nor who
// reads.
package cache
