// Package block keeps parts of the objects of a backend far away in a folder of this
// machine, for who reads the same or what lies beside it again.
//
// Vocabulary: a block is a part of an object of 256 KiB, counted from the object's
// beginning, in a file of its own; the last one of an object is shorter. What is
// asked of the backend behind is whole blocks, those that lie beside one another at
// once: with 20 ms for each answer, small files that lie side by side would otherwise
// be 50 a second.
//
// Only packs are kept, which never change. Blocks are not synced to disk, and not
// checked: whoever reads checks what is in them against its hash, and says by
// [Blocks.Doubt] that it is not right. Several processes may use one folder; whatever
// is missing in it is fetched again.
//
// It must not know what is in a pack, nor who reads.
package block
