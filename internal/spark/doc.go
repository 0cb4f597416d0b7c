// Package spark runs the driver and the executors of one Spark application, out of
// the Python package pyspark, as members of a gang.
//
// # Vocabulary
//
// The driver's member runs a master of Spark's standalone mode and the script,
// which is the driver proper; each executor's member runs a worker of that mode,
// which starts one executor. They share a folder: that of the datum, with its
// output, the application's secret and what became of it. Or they are apart: each has
// such a folder of its own, the secret comes with the inputs, tasks leave their files
// where they ran, and who started the members puts these together.
//
// An executor of members that are apart may go while the application runs, where they
// are told that it may ([Executor].Leaves): it ends its tasks, and hands on what others
// will read.
//
// The secret of an application is made by its driver, or comes, and is known to who may
// read the folder. Whatever listens asks for it: what Spark's parts say to one another is
// authenticated and encrypted with it, and the pages that master and worker would
// show, which cannot be turned off, are shown to nobody ([Settings]).
//
// A member that ends leaves nothing behind: what it starts is a process group that
// is killed with it, and its files are in a folder of its pod.
//
// What listens where, and by which settings, follows Spark's documentation
// ("Security", "Spark Standalone Mode", "Configuration") of version 4.
//
// The package must not know Kubernetes, pipelines or who gives out datums.
package spark
