// Package evaluation evaluates Jsonnet files, such as templates of pipelines, with arguments.
//
// A file is untrusted, and its evaluation may need any time and memory. So a child process
// evaluates it: this program with the hidden verb [Verb]. It is killed after [Most]. Its output is
// limited and, on Linux, its memory. It reads files in the folder of the file alone.
//
// The package must not know the use of the result.
package evaluation
