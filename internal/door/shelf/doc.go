// Package shelf owns where the door keeps bytes: objects by key, in a folder or
// in a bucket.
//
// Vocabulary:
//
//   - A key is a slash-separated name of letters, digits, dots, dashes and
//     underscores.
//   - An object has all of its bytes or is not there: nobody sees a part of one,
//     whoever dies while writing. What is put last under a key is what is there.
//
// Several processes may use one shelf at once. It must not know what objects
// mean, nor who asks.
package shelf
