// Package evaluation evaluates Jsonnet files, such as templates of pipelines, with arguments.
//
// A file may be anybody's, and an evaluation may take any time and memory. So a process of its
// own evaluates, which is this program again with the hidden verb [Verb]: it is ended after
// [Most] seconds, on Linux its memory is limited, and what it prints is. It reads files in the
// folder of the file alone.
//
// The package must not know the use of the result.
package evaluation
