// Package packing measures how much of a cluster can be given out.
//
// Pods arrive one by one and nothing departs, as in the evaluation of
// fragmentation gradient descent (FGD, ATC '23): the pods of a trace are
// shuffled; then pods drawn from it at random follow until what arrived wants
// 130 % of the cluster's GPUs. A pod that fits nowhere is dropped. What is
// read is the allocation (the part of the cluster's GPUs that is held, in
// percent) at the moment when arrivals reach a level.
//
// Ties between equal nodes go to an order of the nodes that the seed draws.
// Nodes are placed upon by the package placement itself, under any of its
// policies, as in production.
package packing
