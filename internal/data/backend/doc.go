// Package backend owns where the store keeps its bytes: objects by key, in a
// folder, in memory, in a bucket that speaks S3, or with somebody else who is asked
// for them over HTTP.
//
// Vocabulary:
//
//   - A key is a slash-separated name of letters, digits, dots, dashes and
//     underscores.
//   - An object has all of its bytes or is not there. What Put acknowledged is
//     there after a crash or a power cut.
//
// Every backend passes the suite of [github.com/muster-dev/muster/internal/data/backend/contract].
// It must not know what objects mean, nor check them against hashes: that is for
// whoever reads.
package backend
