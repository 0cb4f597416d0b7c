//go:build staging

package main

// Gives the one staging module that is not imported a version: see internal/controlplane/upstream.
import _ "k8s.io/sample-apiserver/pkg/apis/wardle"
