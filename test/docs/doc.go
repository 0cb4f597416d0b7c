// Package docs checks the documents of this repository: that their links lead
// somewhere, that docs/README.md lists all of them, and that README.md stays
// short enough to be read.
//
// A page is a Markdown file. A link is relative unless it has a scheme. An index
// is a README.md in docs or below it.
//
// It must not know what a page is about. The commands of the tutorials are run by
// test/e2e.
package docs
