//go:build race

package fencing_test

const raced = true
