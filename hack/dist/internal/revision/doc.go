// Package revision names the version of a checkout: that of its Git tag, or one
// that precedes the next release.
//
// The next release is the version in python/pyproject.toml, the one place where a
// person writes it. A version has two spellings: SemVer for programs, images and
// the chart, and PEP 440 for the wheel. Those of a release are the same.
//
// It must not know what is built of the checkout.
package revision
