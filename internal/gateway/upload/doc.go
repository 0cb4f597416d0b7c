// Package upload keeps files that come in parts, until they are complete.
//
// Vocabulary:
//
//   - An [Upload] is a file that comes in parts. A [Part] is one of them: its bytes, and
//     a note of its number, sum and size.
//   - A [Store] keeps uploads beside the data of their namespace, so that any process may
//     go on with one.
//   - A [Body] is the content of a part, as it comes.
//
// It must not know S3, who may write, nor what becomes of a complete file.
package upload
