// Package pullsecret reads the credentials for registries that a Secret holds.
//
// It must not know who names the Secret, nor which image is pulled with it.
package pullsecret
