// Package trust says whose certificates are believed by what connects by TLS to services of
// others, such as buckets and registries of images.
//
// Vocabulary: an authority is who signs certificates. Known are those of the system; where it
// has none, as in an image that holds one program, those that Mozilla's programs believe take
// their place. An installation names further ones, by a folder of their certificates.
//
// It must not know who connects to what. Muster's own certificates, of its API server, door
// and gateway, are not its business: whoever meets these knows exactly whom to believe.
package trust
