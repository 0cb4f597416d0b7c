// Command dist makes what a user installs without a compiler, in the folder dist:
// a wheel, archives, an image, the Helm chart, the licences and the checksums.
//
//	go run ./hack/dist                        all of it
//	go run ./hack/dist -only wheel,chart      a part
//	go run ./hack/dist -list                  the parts
//
// A part is a file, or the one image. Two runs of one commit by one version of Go
// make the same bytes. What a part is packed of is in the packages below internal.
package main
