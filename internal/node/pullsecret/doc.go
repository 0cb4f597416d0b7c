// Package pullsecret reads the registry credentials in a Secret.
//
// The package must not know the pods that name the Secret, nor the images.
package pullsecret
