// Package manifest reads the objects of manifests: YAML or JSON, several documents a
// file, folders, lists, standard input. Verbs with -f share it.
//
// It must not know any command, nor the meaning of a kind.
package manifest
