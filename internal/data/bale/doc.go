// Package bale has many small packs lie in one object, whole, one after the other.
//
// Vocabulary: a bale is an object that holds packs as they are, each with its own index,
// and behind them a list that says where each one begins. A pack is loose where it has an
// object of its own. Who reads, looks for, or lists packs through [Over] need not know which
// of them are loose.
//
// A pack may be loose and in bales at the same time, and in several of these: all of them
// hold the same bytes. Of several bales the one that was stored last is its holder; the
// others are superseded by it.
//
// It must not know what packs hold, nor which of them are needed.
package bale
