// Package visitor is the asking side of the manager's door: through the API
// server for people, directly for agents on nodes.
//
// Vocabulary:
//
//   - To knock is to send a request with a token. A token that is refused is
//     asked for anew, once; a busy door is asked again.
//   - To send code is to make the door have a snapshot, without sending what it
//     has already.
//   - To fetch code is to lay a snapshot out in a folder, checked.
//
// It must not know what answers mean.
package visitor
