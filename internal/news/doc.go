// Package news says when what a status says of how far things are is written.
//
// Vocabulary: what a status says is either owed, and written before anything is
// taken away or given back, or it is news: whoever begins anew finds it out again.
// News is written at once as long as there is little of it. Beyond that it waits for
// its turn, and never for longer than somebody can bear not to know; what comes
// meanwhile is written with it. Where a hundred things start and end each second
// nobody reads that one of them is starting.
//
// Each who writes has turns of its own. What is news, and what waits, is theirs to
// know: the package must not know any kind.
package news
