// Package imagetag finds out what tags of container images name now: it asks their
// registries for digests.
//
// Vocabulary: a name is what somebody wrote (busybox, registry/team/box:1); in full it has
// registry, repository, and tag or digest. An exact name has the digest in place of the tag:
// whoever runs it runs what was found. A lookup is one question to a registry; its answer
// counts for a moment, so that stages that are planned together mean the same image.
//
// It must not know who asks, nor what an image is run for. What an image holds it does not
// read: nothing is pulled here.
package imagetag
