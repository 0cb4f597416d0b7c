// Package upload stores multipart uploads until they are complete.
//
// Vocabulary:
//
//   - An [Upload] is a file in parts. A [Part] has an object with its bytes, and a note
//     with its number, checksum and size.
//   - A [Store] keeps uploads in the store of their namespace's data, so that any gateway
//     process can continue one.
//   - A [Body] is the stream of a part's content.
//
// The package must not know S3, authorization, nor the commit of a complete file.
package upload
