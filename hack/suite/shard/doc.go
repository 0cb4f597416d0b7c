// Package shard splits the tests of one package into shards that run at the same time, each
// in a process of its own, so that all end at about the same time.
package shard
