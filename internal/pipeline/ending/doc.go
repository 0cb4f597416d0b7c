// Package ending owns why a worker of a stage ended: words for the ends that the status of its
// pod has, and a log of them. The pods of a job that starts again are deleted before its next
// workers run, and their statuses go with them.
//
// It must not know pipelines, nor talk to a server.
package ending
