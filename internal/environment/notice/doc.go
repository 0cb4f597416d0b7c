// Package notice tells one listener which keys changed, without ever blocking
// the one who reports and without losing a key.
//
// A [Board] is a set of keys with a channel in front: posting a key that is
// still waiting to be read changes nothing, so a slow listener sees every key
// that changed, once, however often it changed. The board knows nothing of
// what the keys mean. [Board.Serve] hands the keys to workers, by namespace.
package notice
