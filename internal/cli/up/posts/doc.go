// Package posts lets pods of stages reach the foreman on a machine that several users share. It does there
// what the agent and the door do on a cluster.
//
// Vocabulary: a post is a folder of root's for one volume of a pod. It has the program that workers run, a
// socket and a token. The socket and the token belong to the owner of the pod's namespace, so no other user
// connects. The socket's server tells the foreman which pod asks, and answers for the work of the volume
// alone; the foreman refuses a work of another namespace. The token shows a worker that its pod still has the
// post. A post outlives Muster, since pods do: the next Muster listens in the same folder.
//
// The package must not know what workers and the foreman say, nor who prepares volumes.
package posts
